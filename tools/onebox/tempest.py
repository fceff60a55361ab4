# SPDX-License-Identifier: Apache-2.0
"""Tempest with quintupleo_tempest_plugin, against what quickstart makes.

Its Ironic asks for no credentials, but Tempest looks for services in the
catalog of an identity service: that of the host cloud gets an entry for it.
"""

import re
import shutil
import subprocess

from onebox.minicloud import settings
from onebox import system

# The last three build this checkout.
REQUIREMENTS = ('tempest', 'ironic-tempest-plugin', 'setuptools<81', 'wheel',
                'pbr')
PACKAGES = ('iputils-ping',)
SCENARIOS = 'quintupleo_tempest_plugin'

# Nova is the host cloud's here, and none that has Ironic's nodes.
TEMPEST_CONF = '''\
[DEFAULT]
log_dir = {folder}
log_file = tempest.log

[auth]
use_dynamic_credentials = true
create_isolated_networks = false
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default

[baremetal]
active_timeout = 1200
unprovision_timeout = 1200
power_timeout = 300
driver = quintupleo
enabled_hardware_types = quintupleo
enabled_deploy_interfaces = direct,ramdisk
enabled_management_interfaces = quintupleo
enabled_power_interfaces = quintupleo
adjusted_root_disk_size_gb = 4
whole_disk_image_url = {image}
whole_disk_image_checksum = {checksum}

[enforce_scope]
ironic = false

[identity]
auth_version = v3
region = {region}
uri_v3 = {keystone}
v3_endpoint_type = public

[oslo_concurrency]
lock_path = {folder}/lock

[quintupleo]
dhcp_lease_file = {leases}
image_disk_format = raw

[service_available]
cinder = false
glance = true
horizon = false
ironic = true
neutron = true
nova = false
swift = false

[validation]
connect_method = fixed
ping_timeout = 300
'''
COUNT = re.compile(r'^ - (Passed|Failed|Skipped): (\d+)$')


def run(lab, venv, folder):
    """Run the scenarios, and show what Tempest says meanwhile.

    :param lab: the :class:`onebox.quickstart.Quickstart`, with a node that is
        available.
    :param venv: path of a Python environment with Tempest and our plugin.
    :param folder: folder for Tempest's configuration, logs and results.
    :returns: a dict of how many 'passed', 'failed' and were 'skipped'.
    """
    _add_to_catalog(lab)
    shutil.rmtree(folder, ignore_errors=True)
    system.make_dir(folder, 0o700)
    conf = folder / 'tempest.conf'
    image = lab.nodes.image()
    system.write_file(conf, TEMPEST_CONF.format(
        folder=folder, password=lab.cloud.password('admin'),
        image=image['image_source'], checksum=image['image_os_hash_value'],
        region=settings.REGION, keystone=lab.cloud.url('keystone', '/v3'),
        leases=lab.ironic.leases))
    counts = dict.fromkeys(('passed', 'failed', 'skipped'), 0)
    with subprocess.Popen(
            [venv / 'bin' / 'tempest', 'run', '--config-file', conf,
             '--regex', SCENARIOS, '--concurrency', '1'],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={'PATH': f'{venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin',
                 'HOME': str(folder), 'LC_ALL': 'C.UTF-8',
                 'PYTHONWARNINGS': 'ignore'}) as process:
        for line in process.stdout:
            print(line, end='', flush=True)
            if found := COUNT.match(line):
                counts[found[1].lower()] = int(found[2])
    return counts


def _add_to_catalog(lab):
    identity = lab.host_cloud.connect('minicloud-admin').identity
    service = identity.find_service('ironic') or identity.create_service(
        name='ironic', type='baremetal')
    if not list(identity.endpoints(service_id=service.id)):
        identity.create_endpoint(
            service_id=service.id, interface='public',
            region_id=settings.REGION, url=lab.ironic.api_url)
