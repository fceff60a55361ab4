# SPDX-License-Identifier: Apache-2.0
"""The configuration of an Ironic for one network, and of what boots its nodes.

One ``ironic`` process (API and conductor) with SQLite, dnsmasq for DHCP and
TFTP, nginx for HTTP. The machines reach only what an agent needs of the API,
through nginx. Both quickstart's Ironic and the conductor image are made of it,
which is why it needs nothing else.
"""

IRONIC_CONF = '''\
[DEFAULT]
{authentication}
rpc_transport = none
my_ip = {address}
host = {host}
state_path = {root}/state
{logging}
default_log_levels = {log_levels}
enabled_hardware_types = quintupleo
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = ipxe,pxe,quintupleo-virtual-media
enabled_console_interfaces = {consoles}
enabled_deploy_interfaces = direct,ramdisk,quintupleo-rebuild
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = quintupleo,agent,no-inspect
enabled_management_interfaces = quintupleo
enabled_network_interfaces = noop,quintupleo
enabled_power_interfaces = quintupleo
enabled_raid_interfaces = no-raid,agent
enabled_rescue_interfaces = no-rescue,agent
default_rescue_interface = agent
enabled_storage_interfaces = noop
enabled_vendor_interfaces = quintupleo,no-vendor
esp_image = {images}/esp.img
isolinux_bin = /usr/lib/ISOLINUX/isolinux.bin

[agent]
certificates_path = {root}/certificates
deploy_logs_collect = always
deploy_logs_local_path = {logs}/agent
# For partition images, under BIOS and UEFI.
enable_bios_bootloader_install = true
image_download_source = http

[api]
host_ip = 127.0.0.1
port = {api_port}
api_workers = 1

[conductor]
automated_clean = true
deploy_kernel = file://{images}/agent.kernel
deploy_ramdisk = file://{images}/agent.ramdisk
rescue_kernel = file://{images}/agent.kernel
rescue_ramdisk = file://{images}/agent.ramdisk
file_url_allowed_paths = {images}
heartbeat_interval = 20
sync_power_state_interval = 60

[database]
# Seconds that the others wait for one that writes to a busy disk.
connection = sqlite:///{root}/ironic.sqlite?timeout=60

[deploy]
erase_devices_priority = 0
erase_devices_metadata_priority = 10
http_root = {root}/http
http_url = http://{address}:{http_port}
iso_master_path = {root}/master-iso

[dhcp]
dhcp_provider = none

[glance]
{glance}

[oslo_concurrency]
lock_path = {root}/lock

[pxe]
ipxe_fallback_script = next-device.ipxe
images_path = {root}/pxe-images
instance_master_path = {root}/master
tftp_master_path = {root}/tftp-master
tftp_root = {root}/tftp
tftp_server = {address}
kernel_append_params = {agent_parameters}

[quintupleo]
{credentials}
fault_injection = {fault_injection}

[redfish]
# Ironic 24.1 has Swift keep the ISOs of users otherwise.
use_swift = false

[service_catalog]
auth_type = none
endpoint_override = http://{address}:{http_port}
{sections}'''

# The first is that of new nodes.
CONSOLES = 'quintupleo,quintupleo-graphical,quintupleo-serial,no-console'

# For a machine that Ironic has nothing for: a network-first server then goes
# on to its disk.
NEXT_DEVICE = '''\
#!ipxe
exit 1
'''

# What the driver asks of the host cloud is worth reading here; keystoneauth
# leaves the secrets out.
LOG_LEVELS = ('keystoneauth.session=DEBUG,quintupleo_power=DEBUG,'
              'sqlalchemy=WARNING,urllib3=WARNING,eventlet=WARNING,'
              'stevedore=INFO,oslo_messaging=INFO')

# systemd and the agent write to the console that Nova keeps a log of. Without
# no_timer_check a kernel on a busy host without KVM can panic.
AGENT_PARAMETERS = 'console=tty0 console=ttyS0,115200n8 no_timer_check'

DNSMASQ_CONF = '''\
port=0
interface={device}
bind-dynamic
except-interface=lo
{leases}
dhcp-boot=http://{address}:{http_port}/boot.ipxe
dhcp-leasefile={lease_file}
# iPXE, the agent and the deployed system each have a client ID of their own.
dhcp-ignore-clid
enable-tftp
tftp-root={root}/tftp
log-dhcp
log-facility=-
pid-file
'''

NGINX_CONF = '''\
daemon off;
master_process off;
error_log {logs}/nginx.log warn;
pid {root}/nginx.pid;
events {{ }}
http {{
    access_log {logs}/nginx-access.log;
    client_body_temp_path {root}/nginx/body;
    proxy_temp_path {root}/nginx/proxy;
    fastcgi_temp_path {root}/nginx/fastcgi;
    uwsgi_temp_path {root}/nginx/uwsgi;
    scgi_temp_path {root}/nginx/scgi;
    client_max_body_size 64m;
    sendfile on;
    server {{
        listen {address}:{http_port};
        root {root}/http;
        location ~ ^/(v1/(lookup|heartbeat|continue_inspection).*)?$ {{
            proxy_pass http://127.0.0.1:{api_port};
            proxy_set_header Host $http_host;
        }}
    }}
    {servers}
}}
'''


# Below the folder of all of it.
FOLDERS = ('run', 'state', 'http', 'tftp', 'lock', 'nginx', 'pxe-images',
           'master', 'tftp-master', 'http/images')
HTTP_PORT = 8088


def render(credentials, glance=None, **words):
    """Return the text of each file, by its path below the folder of all.

    :param credentials: options of [quintupleo] that name the host cloud, as a
        dict.
    :param glance: options of [glance], as a dict; None for no Glance.
    :param words: what else the templates have, such as ``root``, the folder.
    """
    words = {'http_port': HTTP_PORT, 'agent_parameters': AGENT_PARAMETERS,
             'log_levels': LOG_LEVELS, 'consoles': CONSOLES,
             'sections': '', 'servers': '', 'fault_injection': 'false',
             'images': f'{words["root"]}/http/images',
             'credentials': _lines(credentials),
             'glance': _lines(glance or {}), **words}
    return {name: template.format(**words) for name, template in (
        ('ironic.conf', IRONIC_CONF), ('dnsmasq.conf', DNSMASQ_CONF),
        ('nginx.conf', NGINX_CONF), ('http/next-device.ipxe', NEXT_DEVICE))}


def _lines(options):
    return '\n'.join(f'{name} = {value}' for name, value in options.items())
