# SPDX-License-Identifier: Apache-2.0
"""What base.py documents: returned values and exceptions, by calling."""

import inspect
import re

from ironic.common import exception
from ironic.common import states

from quintupleo_power.interfaces import boot
from tests.unit.contract import contracts
from tests.unit.contract import installed
from tests.unit.contract import lab

DICT_OF_PORTS = ('add_cleaning_network', 'add_rescuing_network',
                 'add_inspection_network', 'add_servicing_network')
POWER_STATES = (states.POWER_ON, states.POWER_OFF, states.ERROR)


def _is_list_of(kind):
    return lambda found: isinstance(found, list) and all(
        isinstance(each, kind) for each in found)


def _is(*values):
    return lambda found: found in values


# What each method that documents a value has to return.
RETURNS = {
    'get_properties': lambda found: found and all(
        isinstance(text, str) for pair in found.items() for text in pair),
    'image_publisher_settings': lambda found: bool(found.image_subdir),
    'get_console': lambda found: set(found) == {'type', 'url'},
    # It is over when it returns (execute_deploy_step).
    'deploy': _is(None, states.DEPLOYWAIT),
    'tear_down': _is(states.DELETED),
    'prepare_service': _is(None, states.SERVICEWAIT),
    'supports_deploy': lambda found: isinstance(found, bool),
    'inspect_hardware': _is(states.MANAGEABLE),
    'get_clean_steps': lambda found: all(
        {'step', 'interface', 'priority', 'abortable', 'argsinfo',
         'requires_ramdisk'} == set(each) for each in found),
    'get_supported_boot_devices': _is_list_of(str),
    'get_boot_device': lambda found: (
        set(found) == {'boot_device', 'persistent'}),
    'get_supported_boot_modes': _is_list_of(str),
    'get_boot_mode': _is('bios', 'uefi', None),
    'get_secure_boot_state': _is(True, False),
    'get_node_health': lambda found: found.value == 'OK',
    'get_sensors_data': lambda found: isinstance(found, dict),
    'detect_vendor': lambda found: isinstance(found, str),
    'get_mac_addresses': _is_list_of(str),
    # No return is documented, and the API passes this on.
    'get_virtual_media': _is_list_of(dict),
    **dict.fromkeys(DICT_OF_PORTS, lambda found: isinstance(found, dict)),
    # The same, where none is documented.
    'add_provisioning_network': lambda found: (
        found is None or isinstance(found, dict)),
    'get_node_network_data': lambda found: isinstance(found, dict),
    'get_power_state': _is(*POWER_STATES),
    'get_supported_power_states': _is_list_of(str),
}

# What the settings or the host cloud lead to, and what else tests here show.
PROVOKED = {'MissingParameterValue', 'InvalidParameterValue', 'NetworkError',
            'DriverOperationError', 'HardwareInspectionFailure',
            'VifAlreadyAttached', 'VifNotAttached', 'NoFreePhysicalPorts',
            'Conflict', 'UnsupportedDriverExtension'}
SHOWN_ELSEWHERE = {'NodeCleaningFailure': 'test_step_that_is_left_out'}
# There are no DHCP options to be set, and no sensors.
NEVER = {'FailedToUpdateDHCPOptOnPort', 'FailedToGetSensorData',
         'FailedToParseSensorData'}


def _documentation(kind, name):
    return inspect.getdoc(getattr(installed.base_class(kind), name,
                                  None)) or ''


def _documented_exceptions(kind, name):
    texts = re.findall(r':raises:?(.*?)(?=\n *:|\Z)',
                       _documentation(kind, name), re.DOTALL)
    return {word for word in re.findall(r'[A-Z]\w+', ' '.join(texts))
            if hasattr(exception, word)}


def _own_methods(kind):
    return [name for name in contracts.answered_by(
        kind, contracts.OWN, installed.RELEASE)
        if installed.is_own(kind, name) and name != 'capabilities']


class DocumentedTestCase(lab.LabTestCase):
    """Each own method, with the arguments that Ironic has to pass.

    One task serves all of them: to make one takes longer than a method.
    """

    def setUp(self):
        super().setUp()
        self.arguments = {
            'ramdisk_params': {'ipa-api-url': 'http://ironic'},
            'device': 'disk', 'power_state': states.POWER_ON, 'mode': 'uefi',
            'state': False, 'port_obj': self.port, 'portgroup_obj': None,
            'vif_info': {'id': self.vif}, 'vif_id': self.vif,
            'device_type': 'cdrom', 'image_url': 'http://web/boot.iso'}
        self.host_cloud.images[self.server.image]['hw_firmware_type'] = 'uefi'
        self.config(group='conductor', bootloader='file:///esp.img')
        self.attach_vif()
        self.task = self.acquire()
        self.addCleanup(self.task.release_resources)

    def call(self, kind, name):
        """Call a method; return what it returns, or raises."""
        known = {**contracts.BASE, **contracts.METHODS[kind]}[name][0] or ''
        arguments = [{'task': self.task, **self.arguments}[each]
                     for each in known.split(', ')
                     if each in {'task', *self.arguments}]
        found = getattr(getattr(self.task.driver, kind), name)
        try:
            return found(*arguments) if callable(found) else found
        except Exception as exc:  # noqa: BLE001
            return exc


class ReturnsTestCase(DocumentedTestCase):

    def prepare(self, name):
        """Let the node be as Ironic calls the method with it."""
        state = {'prepare_ramdisk': states.DEPLOYING,
                 'deploy': states.DEPLOYING, 'prepare': states.DEPLOYING,
                 'attach_virtual_media': states.MANAGEABLE,
                 'detach_virtual_media': states.MANAGEABLE}
        self.task.node.provision_state = state.get(name, states.AVAILABLE)
        self.task.node.save()
        self.set_server(*(('active', 1) if name == 'inject_nmi'
                          else ('stopped', 4)))

    def check(self, kind, *left_out):
        mistakes = []
        for name in _own_methods(kind):
            if name in left_out:
                continue
            if re.search(':returns: (?!None)', _documentation(kind, name)):
                self.assertIn(name, RETURNS)
            self.prepare(name)
            found = self.call(kind, name)
            is_right = RETURNS.get(name, _is(None))
            if isinstance(found, Exception) or not is_right(found):
                mistakes.append(f'{kind}.{name}: {found!r}')
        self.assertEqual([], mistakes)

    def test_boot(self):
        self.check('boot')

    def test_deploy(self):
        self.check('deploy')

    def test_management(self):
        self.check('management')

    def test_network(self):
        self.task.driver.network.vif_detach(self.task, self.vif)
        # What attaches comes before what detaches.
        self.check('network', 'vif_detach', *DICT_OF_PORTS)
        self.assertIsNone(self.call('network', 'vif_detach'))

    def test_network_that_a_node_is_put_on(self):
        port, = self.task.ports
        for name in DICT_OF_PORTS:
            self.prepare(name)
            found = self.call('network', name)
            made = [value for key, value in port.internal_info.items()
                    if key != 'tenant_vif_port_id']
            self.assertEqual({port.uuid: made[0]}, found)

    def test_others(self):
        for kind in ('console', 'inspect', 'power', 'vendor'):
            self.check(kind)


class RaisesTestCase(DocumentedTestCase):
    """A mistake is what it is documented to be, or is not met."""

    def check(self, wanted):
        """Check every own method of all interfaces.

        :param wanted: returns the class that a method has to raise, if it
            raises anything, by kind and name.
        :returns: what each has returned or raised.
        """
        outcomes = {
            (kind, name): self.call(kind, name)
            for kind in installed.OURS for name in _own_methods(kind)
            # They would change the others' situation.
            if name not in ('vif_attach', 'vif_detach')}
        self.assertEqual([], [
            f'{kind}.{name}: {outcome!r}'
            for (kind, name), outcome in outcomes.items()
            if isinstance(outcome, Exception)
            and type(outcome) is not wanted(kind, name)])
        return outcomes

    def test_setting_that_is_missing(self):
        self.task.node.driver_info = {}
        outcomes = self.check(
            lambda kind, name: exception.MissingParameterValue)
        for kind in installed.OURS:
            self.assertIsInstance(outcomes[kind, 'validate'], Exception, kind)

    def test_setting_that_is_wrong(self):
        self.task.node.driver_info = {'quintupleo_server': ['a', 'b']}
        outcomes = self.check(
            lambda kind, name: exception.InvalidParameterValue)
        for kind in installed.OURS:
            self.assertIsInstance(outcomes[kind, 'validate'], Exception, kind)

    def test_host_cloud_that_is_away(self):
        self.without_host_cloud()

        def wanted(kind, name):
            if 'validate' in name or name == 'prepare':
                return exception.InvalidParameterValue
            return {'network': exception.NetworkError,
                    'inspect': exception.HardwareInspectionFailure}.get(
                        kind, exception.DriverOperationError)
        outcomes = self.check(wanted)
        # Those that have to ask it; the supported modes are the driver's own.
        for (kind, name), outcome in outcomes.items():
            if name.startswith('add_') or name in (
                    'inspect_hardware', 'get_boot_mode', 'set_boot_mode',
                    'get_secure_boot_state', 'set_secure_boot_state',
                    'get_node_health', 'get_power_state', 'set_power_state'):
                self.assertIsInstance(outcome, Exception, (kind, name))

    def test_what_is_not_supported_says_so(self):
        for kind in installed.OURS:
            for name in contracts.answered_by(kind, contracts.REFUSED,
                                              installed.RELEASE):
                arguments, *_ = contracts.METHODS[kind][name]
                required = [None for each in arguments.split(', ')[1:]
                            if '=' not in each]
                self.assertRaises(
                    exception.UnsupportedDriverExtension,
                    getattr(getattr(self.task.driver, kind), name),
                    self.task, *required)

    def test_method_that_the_vendor_interface_does_not_have(self):
        self.assertRaises(exception.UnsupportedDriverExtension,
                          self.task.driver.vendor.validate, self.task,
                          'nonsense')

    def test_vifs(self):
        network, port = self.task.driver.network, self.task.ports[0]
        self.assertEqual([{'id': self.vif}], network.vif_list(self.task))
        self.assertRaises(exception.VifAlreadyAttached, network.vif_attach,
                          self.task, {'id': self.vif})
        self.assertRaises(exception.NoFreePhysicalPorts, network.vif_attach,
                          self.task, {'id': 'b' * 36})
        self.assertRaises(exception.VifNotAttached, network.vif_detach,
                          self.task, 'b' * 36)
        port.address = '20:57:f8:00:00:02'
        self.assertRaises(exception.Conflict, network.port_changed,
                          self.task, port)


def test_each_documented_exception_is_shown():
    for kind in installed.OURS:
        for name in _own_methods(kind):
            assert _documented_exceptions(kind, name) <= {
                *PROVOKED, *SHOWN_ELSEWHERE, *NEVER}, (kind, name)


def test_virtual_media_announce_that_they_boot_ramdisks():
    assert boot.QuintupleoVirtualMediaBoot.capabilities == ['ramdisk_boot']
