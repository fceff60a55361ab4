# SPDX-License-Identifier: Apache-2.0
"""Virtual baremetal servers in the host cloud, and their Ironic nodes.

What the tenant of a cloud does, with openstacksdk out of the environment
that :mod:`onebox.ironic` makes.
"""

import dataclasses
import hashlib
import json
import time

import openstack
from openstack import exceptions

from onebox import system

CLOUD = 'minicloud'
ADMIN = 'minicloud-admin'
NETWORK = 'quintupleo-provision'
FLAVOR = 'baremetal-small'


@dataclasses.dataclass(frozen=True)
class Machine:
    """One virtual baremetal server and its node.

    :ivar name: name of both.
    :ivar boot_mode: 'bios' or 'uefi'.
    :ivar mac: MAC address; agents ignore cards whose address begins with
        Neutron's usual fa.
    :ivar disks: what its server has, a key of ``DISKS``.
    :ivar flavor: name of its flavor.
    """

    name: str
    boot_mode: str
    mac: str
    disks: str = 'image'
    flavor: str = FLAVOR


MACHINES = (Machine('bios-0', 'bios', '20:57:f8:00:00:01'),
            Machine('uefi-0', 'uefi', '20:57:f8:00:00:02'))

VOLUME_GIB = 6


def _drive(boot_index, source, destination, **more):
    return {'boot_index': boot_index, 'source_type': source,
            'destination_type': destination, 'delete_on_termination': True,
            **more}


def _from_image(image_id):
    return {'image_id': image_id}


def _from_volume(image_id):
    return {'block_device_mapping': [
        _drive(0, 'image', 'volume', uuid=image_id, volume_size=VOLUME_GIB)]}


def _cdrom_of_image(image_id):
    return {'image_id': image_id, 'block_device_mapping': [
        _drive(0, 'image', 'local', uuid=image_id),
        _drive(1, 'blank', 'volume', volume_size=VOLUME_GIB)]}


def _cdrom_of_volume(image_id):
    return {'block_device_mapping': [
        _drive(0, 'image', 'volume', uuid=image_id, volume_size=1,
               device_type='cdrom', disk_bus='sata'),
        _drive(1, 'blank', 'volume', volume_size=VOLUME_GIB)]}


# What a server can have: the image's purpose, and how Nova is asked for it.
DISKS = {
    'image': ('empty', _from_image),
    'volume': ('empty', _from_volume),
    'network-first': ('network-first', _cdrom_of_image),
    'network-first, all volumes': ('network-first', _cdrom_of_volume),
}

_WRONG_STATES = ('error', 'failed')


class HostCloud:
    """The tenant's view of the host cloud."""

    def __init__(self, service):
        """Connect with the entry of clouds.yaml that minicloud wrote.

        :param service: the :class:`ironic.Ironic`, for its environment.
        """
        self._service = service
        self.connection = self.connect(CLOUD)

    def connect(self, entry):
        """Connect with an entry of clouds.yaml."""
        config = openstack.config.OpenStackConfig(
            config_files=[str(self._service.state / 'clouds.yaml')],
            load_envvars=False)
        return openstack.connection.Connection(config=config.get_one(entry))

    def password_options(self):
        """Return the tenant's credentials, as a section of a configuration.

        :returns: a dict of keystoneauth's options.
        """
        entry = self.connection.config
        return {'auth_type': 'password',
                'region_name': entry.get_region_name(),
                **entry.get_auth_args()}

    def create_images(self, iso, network_first_iso=None):
        """Upload the rescue images and the empty ones.

        :param iso: path of the rescue image.
        :param network_first_iso: path of the network-first image, to have
            that uploaded, too.
        """
        words = ['--iso', iso]
        if network_first_iso:
            words += ['--network-first-iso', network_first_iso]
        self.client('quintupleo', 'image', 'create', '--replace', *words)

    def client(self, *words, cloud=CLOUD, check=True):
        """Run the openstack client.

        :param words: its arguments.
        :param cloud: entry of clouds.yaml to use.
        :param check: whether a failure is an error.
        :returns: the finished process.
        """
        return system.run(
            [self._service.venv / 'bin' / 'openstack', '--os-cloud', cloud,
             *words], check=check, env=self._service.environment())

    def create_network(self):
        """Make the provisioning network: no DHCP, no port security."""
        network = self.connection.network.find_network(NETWORK)
        if network is None:
            network = self.connection.network.create_network(
                name=NETWORK, is_port_security_enabled=False)
        if not network.subnet_ids:
            self.connection.network.create_subnet(
                network_id=network.id, name=NETWORK, ip_version=4,
                cidr=str(self._service.network), is_dhcp_enabled=False,
                gateway_ip=None,
                # The DHCP server here has the rest.
                allocation_pools=[dict(zip(
                    ('start', 'end'), map(str, self._service.pool),
                    strict=True))])
        return network.id

    def create_server(self, machine, network_id, stage):
        """Make a server with an empty disk, switched off.

        :param machine: the :class:`Machine`.
        :param network_id: UUID of its network.
        :param stage: the stage of the progress.
        :returns: UUID of the server.
        """
        compute = self.connection.compute
        server = compute.find_server(machine.name)
        if server is None:
            server = compute.create_server(
                name=machine.name, **self._disks(machine),
                flavor_id=compute.find_flavor(
                    machine.flavor, ignore_missing=False).id,
                networks=[{'port': self._port(machine, network_id)}])
        elif server.status != 'BUILD':
            return server.id
        stage.waiting(f'Nova to build {machine.name}')
        self.wait_for_server(server, interval=1)
        try:
            compute.stop_server(server)
            compute.wait_for_server(server, status='SHUTOFF', wait=120,
                                    interval=1)
        except exceptions.SDKException as exc:
            raise system.Error(
                f'Nova did not stop server {machine.name}: {exc}',
                self._service.logs / 'nova-compute.log')
        return server.id

    def wait_for_server(self, server, interval=0.3, timeout=300):
        """Wait until Nova has built a server.

        :param server: the server, as openstacksdk has it.
        :param interval: seconds between two looks.
        :param timeout: seconds to wait.
        :returns: the server.
        :raises: Error with Nova's own words about what was wrong.
        """
        compute = self.connection.compute
        try:
            return compute.wait_for_server(server, wait=timeout,
                                           interval=interval)
        except exceptions.SDKException as exc:
            fault = compute.get_server(server.id).fault or {}
            raise system.Error(
                f"Nova did not build server {server.name}: "
                f"{fault.get('message', exc)}",
                self._service.logs / 'nova-compute.log')

    def _disks(self, machine):
        purpose, make = DISKS[machine.disks]
        return make(self.connection.image.find_image(
            f'quintupleo-{purpose}-{machine.boot_mode}',
            ignore_missing=False).id)

    def _port(self, machine, network_id):
        network = self.connection.network
        for port in network.ports(network_id=network_id,
                                  mac_address=machine.mac):
            return port.id
        return network.create_port(
            network_id=network_id, name=machine.name,
            mac_address=machine.mac).id

    def console_log(self, name):
        """The console log of a server so far."""
        compute = self.connection.compute
        server = compute.find_server(name, ignore_missing=False)
        return compute.get_server_console_output(server)['output'] or ''

    def actions(self, name):
        """Nova's record of what was done with a server, oldest first.

        :returns: a list of (time, action, message) tuples.
        """
        compute = self.connection.compute
        server = compute.find_server(name, ignore_missing=False)
        # Nova lists the newest first; its times are whole seconds.
        return [(row.start_time, row.action, row.message or '')
                for row in compute.server_actions(server)][::-1]


class Nodes:
    """Ironic's view of the machines."""

    def __init__(self, service, images):
        """Use the standalone Ironic.

        :param service: the :class:`ironic.Ironic`.
        :param images: the :class:`onebox.images.Images`.
        """
        self._service = service
        self._images = images
        self.connection = openstack.connection.Connection(
            config=openstack.config.OpenStackConfig(
                config_files=[], load_envvars=False).get_one(
                    auth_type='none', auth={'endpoint': service.api_url},
                    baremetal_endpoint_override=service.api_url,
                    # On a busy machine Ironic closes connections that were
                    # not used for a while as the next request is sent.
                    baremetal_connect_retries=3))
        self._api = self.connection.baremetal

    def enroll(self, machine, server_id):
        """Make the node and its port, unless they are there.

        :param machine: the :class:`Machine`.
        :param server_id: UUID of its server.
        """
        if self._api.find_node(machine.name) is not None:
            return
        node = self._api.create_node(
            name=machine.name, driver='quintupleo',
            driver_info={'quintupleo_server': server_id},
            properties={'cpu_arch': 'x86_64',
                        'root_device': {'name': '/dev/vda'}},
            rescue_interface='agent', resource_class='baremetal')
        self._api.create_port(node_id=node.id, address=machine.mac)

    def node(self, name):
        """Read a node."""
        return self._api.get_node(name)

    def provision(self, name, verb, wanted, stage, timeout, **arguments):
        """Ask for a provision state and wait until it is reached.

        :param name: name of the node.
        :param verb: what is asked for, such as 'provide'.
        :param wanted: the state that it ends in, such as 'available'.
        :param stage: the stage of the progress.
        :param timeout: seconds to wait.
        :raises: system.Error when it fails or takes longer.
        """
        self._api.set_node_provision_state(name, verb, **arguments)
        self.wait(name, wanted, stage, timeout)

    def wait(self, name, wanted, stage, timeout):
        """Wait until a node is in a provision state.

        See :meth:`provision`.
        """
        deadline = time.monotonic() + timeout
        while True:
            node = self._api.get_node(name)
            if (node.provision_state == wanted
                    and not node.target_provision_state):
                return node
            if (any(word in node.provision_state for word in _WRONG_STATES)
                    or node.is_maintenance):
                raise self._failure(node, f'is in {node.provision_state}')
            if (node.provision_state == 'enroll'
                    and not node.target_provision_state):
                raise self._failure(node, 'cannot be managed')
            if time.monotonic() > deadline:
                raise self._failure(
                    node, f'is {node.provision_state} and not {wanted} '
                    f'after {timeout} s')
            stage.waiting(_what(node))
            time.sleep(1)

    def _failure(self, node, what):
        return system.Error(
            f'Node {node.name} {what}: {node.last_error or "no error told"} '
            f'(console log: openstack --os-cloud {CLOUD} console log show '
            f'{node.name})', self._service.logs / 'ironic.log')

    def image(self, path=None):
        """An image of the web server, as instance_info of a node has it.

        :param path: the file; None for the raw Debian image, which the agent
            writes without a copy of it.
        """
        found = path or self._images.disk
        return {
            'image_source':
                f'{self._service.http_url}/images/{found.name}',
            'image_os_hash_algo': 'sha256',
            'image_os_hash_value': sha256(found),
            **({} if path else {'image_disk_format': 'raw'})}

    def deploy(self, name, stage, timeout=1200, image=None):
        """Deploy an image to a node's disk.

        :param name: name of the node.
        :param stage: the stage of the progress.
        :param timeout: seconds to wait.
        :param image: instance_info of another image than :meth:`image`.
        """
        self._api.update_node(name, instance_info=image or self.image())
        self.provision(name, 'active', 'active', stage, timeout,
                       config_drive={'meta_data': {
                           'uuid': self.node(name).id, 'hostname': name,
                           'name': name}})

    def set_boot_device(self, name, device, persistent=False):
        """Record a boot device."""
        self._api.set_node_boot_device(name, device, persistent)

    def set_power_state(self, name, target, wanted, timeout=300, pause=0.2):
        """Ask for a power state and wait until Ironic says it is there.

        :param name: name of the node.
        :param target: what is asked for, such as 'rebooting'.
        :param wanted: the power state that it ends in.
        :param timeout: seconds to wait.
        :param pause: seconds between two looks.
        :raises: system.Error when it fails or takes longer.
        """
        self._api.set_node_power_state(name, target)
        deadline = time.monotonic() + timeout
        while True:
            node = self._api.get_node(name)
            if not node.target_power_state:
                if node.power_state != wanted or node.last_error:
                    raise self._failure(node, f'is {node.power_state}')
                return node
            if time.monotonic() > deadline:
                raise self._failure(node, f'is not {wanted}')
            time.sleep(pause)


def _what(node):
    """Say what a node is doing, in words."""
    step = node.clean_step or node.deploy_step or {}
    doing = f'{node.provision_state}'
    if step:
        doing += f', step {step.get("step")}'
    if node.driver_internal_info.get('agent_url'):
        doing += ', agent running'
    elif node.provision_state in ('clean wait', 'wait call-back'):
        doing += ', agent booting'
    return f'{node.name}: {doing}'


def sha256(path):
    """The checksum of a file, computed once and kept beside it."""
    kept = path.with_name(path.name + '.sha256')
    if kept.exists():
        known = json.loads(kept.read_text())
        if known['of'] == [path.stat().st_mtime, path.stat().st_size]:
            return known['sha256']
    digest = hashlib.sha256()
    with open(path, 'rb') as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
    system.write_file(kept, json.dumps({
        'of': [path.stat().st_mtime, path.stat().st_size],
        'sha256': digest.hexdigest()}), 0o644)
    return digest.hexdigest()
