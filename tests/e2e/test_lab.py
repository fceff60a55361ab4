# SPDX-License-Identifier: Apache-2.0
"""A lab from one file: its Ironic runs in the cloud, beside its machines.

The tenant has nothing but the images. The commands run on this machine, which
reaches the lab by its floating IP only.
"""

import contextlib
import dataclasses
import datetime
import json
import subprocess
import urllib.parse

from keystoneauth1 import exceptions as ks_exceptions
import openstack
import pytest
import sushy
from sushy import auth as sushy_auth

from onebox import ironic
from onebox import processes
from onebox import quickstart
from onebox import system
from tests import projects

# What conftest.py goes by: two clouds cannot be up at a time.
OWN_CLOUD = True

NAME = 'lab'
DISK = 'lab-debian'
FILE = f'''
name: {NAME}
networks:
  control:
    port_security: true
    subnets: [{{cidr: 10.250.60.0/24, dhcp: true}}]
  provision:
    subnets: [{{cidr: 10.250.61.0/24}}]
routers:
  edge: {{networks: [control], external_network: public}}
roles:
  undercloud:
    kind: ironic
    flavor: {{vcpus: 2, ram: 2048, disk: 5}}
    redfish: true
    nics:
    - {{network: control, floating_ip: public, security_groups: [{NAME}]}}
    - {{network: provision}}
  node: &node
    flavor: baremetal-one-cpu
    nics: [{{network: provision, mac: 20:57:f8}}]
  uefi:
    <<: *node
    boot_mode: uefi
'''
# Seconds for what an emulated server does.
PATIENCE = 1200
# From outside: the API, and Redfish.
PORTS = (6385, 8000)
# It has community.general, whose Redfish modules nobody here wrote.
ANSIBLE = 'ansible==12.*'
UP_LINE = quickstart.UP_LINE
SCRIPT = ironic.REPOSITORY / 'doc/source/user/ci/test-on-baremetal'


class Lab:
    """The lab, by the commands of a tenant and by its own Ironic."""

    def __init__(self, everything, folder):
        self.everything = everything
        self.cloud = everything.host_cloud.connection
        self.clouds_yaml = folder / 'clouds.yaml'
        self._began = datetime.datetime.now()
        self._path = folder / 'lab.yaml'
        self._path.write_text(FILE)

    def say(self, what):
        """Print a line of the timeline."""
        passed = datetime.datetime.now() - self._began
        print(f'{passed.total_seconds():6.0f} s  {what}', flush=True)

    def run(self, *words):
        """Run "openstack quintupleo environment"."""
        return self.everything.host_cloud.client(
            'quintupleo', 'environment', *words).stdout

    def create(self):
        """Make it from its file, and wait until its nodes are available."""
        self.run('create', self._path, '--wait', '--timeout', str(PATIENCE),
                 '--clouds-yaml', self.clouds_yaml)

    def scale(self, count):
        """Change the number of BIOS nodes."""
        self.run('scale', NAME, 'node', str(count), '--wait', '--timeout',
                 str(PATIENCE))

    @property
    def ironic(self):
        """openstacksdk's proxy of its Ironic, as its users have it."""
        return openstack.connection.Connection(
            config=openstack.config.OpenStackConfig(
                config_files=[str(self.clouds_yaml)],
                load_envvars=False).get_one(NAME)).baremetal

    def states(self):
        """Provision states of its nodes by name."""
        return {node.name: node.provision_state
                for node in self.ironic.nodes()}

    def wait_for(self, function, what):
        """Wait until a function returns something."""
        def tolerant():
            # Its Ironic may be away for a while.
            with contextlib.suppress(openstack.exceptions.SDKException,
                                     ks_exceptions.ClientException):
                return function()
        found = processes.wait_for(tolerant, PATIENCE, what, interval=2)
        self.say(what)
        return found

    def server(self, name):
        """One of its servers."""
        return self.cloud.compute.find_server(f'{NAME}-{name}',
                                              ignore_missing=False)


@pytest.fixture(scope='module')
def lab(public_cloud, tmp_path_factory):
    """The lab with what its user has made before."""
    lab = Lab(public_cloud, tmp_path_factory.mktemp('lab'))
    client = public_cloud.host_cloud.client
    images = public_cloud.images
    client('quintupleo', 'image', 'create', '--iso', images.rescue,
           '--conductor-image', images.conductor)
    client('image', 'create', DISK, '--file', images.disk, '--disk-format',
           'raw', '--container-format', 'bare', '--private')
    group = lab.cloud.network.create_security_group(name=NAME)
    for port in PORTS:
        lab.cloud.network.create_security_group_rule(
            security_group_id=group.id, direction='ingress', protocol='tcp',
            port_range_min=port, port_range_max=port)
    yield lab
    print(lab.everything.host_cloud.console_log(
        f'{NAME}-undercloud-0')[-4000:] if lab.cloud.compute.find_server(
            f'{NAME}-undercloud-0') else '')


def _deploy(lab, name):
    """Have the lab's Ironic write a disk, and the machine boot it."""
    node = lab.ironic.update_node(f'{NAME}-{name}', instance_info={
        'image_source': lab.cloud.image.find_image(DISK).id})
    lab.ironic.set_node_provision_state(
        node, 'active', config_drive={'meta_data': {
            'uuid': node.id, 'name': node.name, 'hostname': name}})
    lab.wait_for(lambda: _is_in(lab, name, 'active'), f'{name} active')
    _wait_for_system(lab, name)


def _is_in(lab, name, wanted):
    """Whether a node is in a state; that it fails ends the test."""
    node = lab.ironic.get_node(f'{NAME}-{name}')
    state = node.provision_state
    assert 'failed' not in state, f'{name} is {state}: {node.last_error}'
    return state == wanted


def _test_on_baremetal(lab, name):
    """Deploy a node by the example that CIs are given."""
    venv = lab.everything.ironic.venv
    subprocess.run(
        [SCRIPT, lab.cloud.image.find_image(DISK).id, f'{NAME}-{name}'],
        check=True, timeout=PATIENCE, env={
            'PATH': f'{venv}/bin:/usr/bin:/bin', 'HOME': '/root',
            'OS_CLOUD': NAME, 'OS_CLIENT_CONFIG_FILE': str(lab.clouds_yaml)})
    lab.say(f'{name} active')
    _wait_for_system(lab, name)


def _wait_for_system(lab, name):
    lab.wait_for(lambda: UP_LINE in lab.everything.host_cloud.console_log(
        f'{NAME}-{name}'), f'{name} boots from its disk')


@dataclasses.dataclass
class Redfish:
    """The Redfish of the lab, for clients that know nothing of OpenStack."""

    lab: Lab
    node: openstack.baremetal.v1.node.Node

    def __post_init__(self):
        config = openstack.config.OpenStackConfig(
            config_files=[str(self.lab.clouds_yaml)],
            load_envvars=False).get_one(NAME)
        self.ca = config.config['cacert']
        self.user = config.get_auth_args()['username']
        self.password = config.get_auth_args()['password']
        self.address = '%s:%d' % (urllib.parse.urlsplit(
            self.lab.ironic.get_endpoint()).hostname, PORTS[1])

    def server_is(self, status, client):
        """Wait until the node's server is in a state."""
        name = self.node.name.removeprefix(f'{NAME}-')
        self.lab.wait_for(lambda: self.lab.server(name).status == status,
                          f'{name} is {status}, by {client}')

    def boot_by_sushy(self):
        """Boot the network once, with Ironic's own client."""
        machine = sushy.Sushy(
            f'https://{self.address}/redfish/v1', verify=self.ca,
            auth=sushy_auth.BasicAuth(self.user, self.password)).get_system(
                f'/redfish/v1/Systems/{self.node.id}')
        machine.reset_system(sushy.RESET_FORCE_OFF)
        self.server_is('SHUTOFF', 'sushy')
        self._wait_for(machine, sushy.SYSTEM_POWER_STATE_OFF)
        machine.set_system_boot_options(
            target=sushy.BOOT_SOURCE_TARGET_PXE,
            enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
        machine.reset_system(sushy.RESET_ON)
        self.server_is('RESCUE', 'sushy')
        self._wait_for(machine, sushy.SYSTEM_POWER_STATE_ON)

    def _wait_for(self, machine, state):
        def reads():
            machine.refresh(force=True)
            return machine.power_state == state
        self.lab.wait_for(reads, f'sushy reads {state.value}')

    def boot_by_ansible(self, folder):
        """Boot the disk, with the modules of community.general."""
        venv = system.cache_dir() / 'tests' / 'ansible-12'
        system.make_venv(venv, [ANSIBLE], folder / 'ansible.log')
        access = {'baseuri': self.address, 'username': self.user,
                  'password': self.password, 'ca_path': self.ca,
                  'validate_certs': True}
        (folder / 'playbook.yaml').write_text(json.dumps([{
            'hosts': 'localhost', 'connection': 'local',
            'gather_facts': False,
            'vars': {'ansible_python_interpreter': f'{venv}/bin/python'},
            'tasks': [
                *self._command(access, 'PowerForceOff', 'Off'),
                *self._command(access, 'SetOneTimeBoot', bootdevice='Hdd'),
                *self._command(access, 'PowerOn', 'On')]}]))
        subprocess.run(
            [venv / 'bin' / 'ansible-playbook', '--inventory', 'localhost,',
             folder / 'playbook.yaml'], check=True, timeout=PATIENCE,
            env={'PATH': '/usr/bin:/bin', 'HOME': str(folder),
                 'LC_ALL': 'C.UTF-8'})
        self.server_is('ACTIVE', 'Ansible')

    def _command(self, access, command, state=None, **more):
        """Return the tasks of a command, and those that see it done."""
        yield {'community.general.redfish_command': {
            **access, 'category': 'Systems', 'command': command,
            'resource_id': self.node.id, **more}}
        if state:
            yield {'community.general.redfish_info': {
                **access, 'category': 'Systems',
                'command': 'GetSystemInventory'},
                'register': 'systems', 'retries': PATIENCE, 'delay': 1,
                'until': 'systems.redfish_facts.system.entries | flatten | '
                         f'selectattr("Id", "defined") | selectattr("Id", '
                         f'"eq", "{self.node.id}") | map(attribute='
                         f'"PowerState") | first == "{state}"'}


@pytest.mark.full
def test_life_of_a_lab(lab, tmp_path):
    before = projects.holdings(lab.cloud)
    lab.create()
    lab.say('created, all nodes available')
    assert lab.states() == {f'{NAME}-node-0': 'available',
                            f'{NAME}-uefi-0': 'available'}
    _test_on_baremetal(lab, 'node-0')
    _deploy(lab, 'uefi-0')
    assert 'firmware UEFI' in lab.everything.host_cloud.console_log(
        f'{NAME}-uefi-0')
    redfish = Redfish(lab, lab.ironic.find_node(f'{NAME}-uefi-0'))
    redfish.boot_by_sushy()
    redfish.boot_by_ansible(tmp_path)
    lab.scale(2)
    lab.say('scaled up')
    assert lab.states()[f'{NAME}-node-1'] == 'available'
    node = lab.ironic.find_node(f'{NAME}-node-0')
    # Its Ironic is cut off in the middle of a cleaning, and finishes it.
    lab.ironic.set_node_provision_state(node, 'deleted')
    lab.wait_for(lambda: _is_in(lab, 'node-0', 'clean wait'),
                 'node-0 is cleaned')
    lab.cloud.compute.reboot_server(lab.server('undercloud-0'), 'HARD')
    lab.say('its Ironic rebooted')
    lab.wait_for(lambda: _is_in(lab, 'node-0', 'available'),
                 'node-0 cleaned')
    lab.scale(1)
    lab.wait_for(lambda: f'{NAME}-node-1' not in lab.states(),
                 'scaled down')
    lab.run('logs', NAME, '--output', tmp_path / 'logs')
    logs = {path.name: path.read_text()
            for path in (tmp_path / 'logs').iterdir()}
    assert 'ironic.conductor' in logs[f'{NAME}-undercloud-0.ironic.log']
    assert {node['name'] for node in json.loads(
        logs[f'{NAME}-undercloud-0.nodes.json'])} == set(lab.states())
    lab.run('delete', NAME)
    lab.say('deleted')
    assert projects.holdings(lab.cloud) == before
