# SPDX-License-Identifier: Apache-2.0
"""What Ironic asks of a hardware type, by release: interfaces and flows.

The tests beside it compare this with the Ironic that they run with; the
documentation shows it. It imports nothing, so that Sphinx needs no Ironic.
"""

# Those of tools/onebox/releases.py, oldest first.
RELEASES = ('24.1', '26.1', '29', '32', '35', '38', '39')

# What the hardware type supports, by Ironic's names of entry points.
SUPPORTED = {
    'bios': ('no-bios',),
    'boot': ('ipxe', 'pxe', 'http-ipxe', 'http', 'quintupleo-virtual-media'),
    'console': ('quintupleo', 'quintupleo-graphical', 'quintupleo-serial',
                'no-console', 'fake-graphical'),
    'deploy': ('autodetect', 'direct', 'ansible', 'ramdisk', 'anaconda',
               'bootc', 'custom-agent', 'noop', 'quintupleo-rebuild'),
    'firmware': ('no-firmware',),
    'inspect': ('quintupleo', 'inspector', 'agent', 'no-inspect'),
    'management': ('quintupleo', 'noop'),
    'network': ('flat', 'neutron', 'ironic-networking', 'noop',
                'quintupleo'),
    'power': ('quintupleo',),
    'raid': ('no-raid', 'agent'),
    'rescue': ('no-rescue', 'agent'),
    'storage': ('noop', 'cinder', 'external'),
    'vendor': ('quintupleo', 'no-vendor'),
}
# The first and the last of RELEASES that has one, where that is not all.
FIRST = {
    ('console', 'fake-graphical'): '35',
    ('console', 'quintupleo-graphical'): '29',
    ('deploy', 'autodetect'): '35',
    ('deploy', 'bootc'): '29',
    ('deploy', 'noop'): '35',
    ('network', 'ironic-networking'): '35',
}
LAST = {('inspect', 'inspector'): '32'}

# Who answers a method of a base class.
OWN = 'this driver'
IRONIC = 'Ironic'
REFUSED = 'refused: not supported'

# Public names of the base classes in ironic/drivers/base.py: the arguments
# after self, None for what is no method, who answers, and from which release
# on where that is not all.
BASE = {
    'supported': (None, IRONIC),
    'interface_type': (None, IRONIC),
    'get_properties': ('', OWN),
    'validate': ('task', OWN),
    'get_clean_steps': ('task', IRONIC),
    'execute_clean_step': ('task, step', IRONIC),
    'get_deploy_steps': ('task', IRONIC),
    'execute_deploy_step': ('task, step', IRONIC),
    'get_verify_steps': ('task', IRONIC),
    'execute_verify_step': ('task, step', IRONIC),
    'get_service_steps': ('task', IRONIC),
    'execute_service_step': ('task, step', IRONIC),
}
METHODS = {
    'boot': {
        'capabilities': (None, OWN),
        'image_publisher_settings': (None, OWN, '39'),
        'prepare_ramdisk': ('task, ramdisk_params', OWN),
        'clean_up_ramdisk': ('task', OWN),
        'prepare_instance': ('task', OWN),
        'clean_up_instance': ('task', OWN),
        'validate_rescue': ('task', OWN),
        'validate_inspection': ('task', OWN),
    },
    'console': {
        'start_console': ('task', OWN),
        'stop_console': ('task', OWN),
        'get_console': ('task', OWN),
    },
    'deploy': {
        'deploy': ('task', OWN),
        'tear_down': ('task', OWN),
        'prepare': ('task', OWN),
        'clean_up': ('task', OWN),
        'take_over': ('task', OWN),
        'prepare_cleaning': ('task', IRONIC),
        'tear_down_cleaning': ('task', OWN),
        'heartbeat': (
            'task, callback_url, agent_version, agent_verify_ca=None, '
            'agent_status=None, agent_status_message=None', IRONIC),
        'tear_down_service': ('task', IRONIC),
        'prepare_service': ('task', OWN),
        'switch_interface': ('task', IRONIC, '35'),
        'restore_interface': ('task', OWN, '35'),
        'supports_deploy': ('task', OWN, '35'),
    },
    'inspect': {
        'ESSENTIAL_PROPERTIES': (None, IRONIC),
        'inspect_hardware': ('task', OWN),
        'abort': ('task', OWN),
        'continue_inspection': ('task, inventory, plugin_data=None', REFUSED),
    },
    'management': {
        'get_clean_steps': ('task', OWN),
        'get_supported_boot_devices': ('task', OWN),
        'set_boot_device': ('task, device, persistent=False', OWN),
        'get_boot_device': ('task', OWN),
        'get_supported_boot_modes': ('task', OWN),
        'set_boot_mode': ('task, mode', OWN),
        'get_boot_mode': ('task', OWN),
        'get_secure_boot_state': ('task', OWN),
        'set_secure_boot_state': ('task, state', OWN),
        'get_node_health': ('task', OWN, '35'),
        'get_sensors_data': ('task', OWN),
        'inject_nmi': ('task', OWN),
        'get_supported_indicators': ('task, component=None', REFUSED),
        'set_indicator_state': ('task, component, indicator, state', REFUSED),
        'get_indicator_state': ('task, component, indicator', REFUSED),
        'detect_vendor': ('task', OWN),
        'get_mac_addresses': ('task', OWN),
        'get_virtual_media': ('task', OWN, '26.1'),
        'attach_virtual_media': ('task, device_type, image_url', OWN),
        'detach_virtual_media': ('task, device_types=None', OWN),
    },
    'network': {
        'capabilities': (None, IRONIC, '32'),
        'port_changed': ('task, port_obj', OWN),
        'portgroup_changed': ('task, portgroup_obj', OWN),
        'vif_attach': ('task, vif_info', OWN),
        'vif_detach': ('task, vif_id', OWN),
        'vif_list': ('task', IRONIC),
        'get_current_vif': ('task, p_obj', IRONIC),
        'add_provisioning_network': ('task', OWN),
        'remove_provisioning_network': ('task', OWN),
        'configure_tenant_networks': ('task', OWN),
        'unconfigure_tenant_networks': ('task', OWN),
        'add_cleaning_network': ('task', OWN),
        'remove_cleaning_network': ('task', OWN),
        'validate_rescue': ('task', OWN),
        'add_rescuing_network': ('task', OWN),
        'remove_rescuing_network': ('task', OWN),
        'validate_inspection': ('task', OWN),
        'add_inspection_network': ('task', OWN),
        'remove_inspection_network': ('task', OWN),
        'need_power_on': ('task', IRONIC),
        'get_node_network_data': ('task', OWN),
        'add_servicing_network': ('task', OWN),
        'remove_servicing_network': ('task', OWN),
    },
    'power': {
        'get_power_state': ('task', OWN),
        'set_power_state': ('task, power_state, timeout=None', OWN),
        'reboot': ('task, timeout=None', OWN),
        'get_supported_power_states': ('task', OWN),
        'supports_power_sync': ('task', IRONIC),
    },
    'vendor': {
        'validate': ('task, method=None, **kwargs', OWN),
        'driver_validate': ('method, **kwargs', IRONIC),
    },
}


# Ironic's flows, each with the first of RELEASES that has it, and the tests
# that run it through Ironic's conductor code, below tests/unit.
_AGENT = 'contract/test_agent_flows.py::'
_CONDUCTOR = 'contract/test_conductor_flows.py::'
_REBUILD = 'interfaces/test_flows.py::'
FLOWS = {
    'verification': ('24.1', f'{_CONDUCTOR}ManagedTestCase'),
    'inspection, by the host cloud': (
        '24.1', f'{_AGENT}InspectionTestCase::test_without_an_agent'),
    'inspection, by an agent': (
        '24.1', f'{_AGENT}InspectionTestCase::test_by_the_agent'),
    'deployment, by rebuild': ('24.1', f'{_CONDUCTOR}ManagedTestCase',
                               f'{_REBUILD}NothingIsLeftTestCase'),
    'deployment, by an agent': ('24.1', f'{_AGENT}LifeTestCase'),
    'deployment again (rebuild)': (
        '24.1', f'{_CONDUCTOR}ManagedTestCase::test_rebuild_of_an_instance'),
    'deployment and cleaning, with another boot mode': (
        '24.1', f'{_AGENT}FirmwareTestCase', 'interfaces/test_firmware.py',
        'interfaces/test_deploy.py::FirmwareTestCase'),
    'deploy steps and templates': (
        '24.1', f'{_REBUILD}DeployStepsTestCase'),
    'deployment, fast track': ('24.1', f'{_AGENT}FastTrackTestCase'),
    'deployment, autodetect': ('35', f'{_CONDUCTOR}AutodetectTestCase'),
    'interfaces of instance_info': (
        '24.1', f'{_REBUILD}InterfaceOfTheTaskTestCase',
        f'{_REBUILD}NothingIsLeftTestCase'),
    'undeployment': ('24.1', f'{_CONDUCTOR}ManagedTestCase',
                     f'{_AGENT}LifeTestCase'),
    'automated cleaning, without an agent': (
        '24.1', f'{_REBUILD}NothingIsLeftTestCase'),
    'automated cleaning, by an agent': (
        '24.1', f'{_AGENT}LifeTestCase', f'{_REBUILD}NothingIsLeftTestCase'),
    'automated cleaning, by a runbook': (
        '32', f'{_REBUILD}RunbookTestCase'),
    'manual cleaning': (
        '24.1', f'{_CONDUCTOR}ManualCleaningTestCase',
        f'{_AGENT}LifeTestCase::test_manual_cleaning',
        'interfaces/test_wipe.py::StepTestCase',
        'interfaces/test_snapshots.py'),
    'manual cleaning, by a runbook': (
        '26.1', f'{_CONDUCTOR}ManualCleaningTestCase::test_by_a_runbook'),
    'service, without an agent': ('24.1', f'{_CONDUCTOR}ServiceTestCase',
                                  f'{_REBUILD}ServiceStepsTestCase'),
    'service, by an agent': ('26.1', f'{_AGENT}LifeTestCase::test_service'),
    'rescue and unrescue': (
        '24.1', f'{_AGENT}LifeTestCase::test_rescue_and_unrescue',
        f'{_CONDUCTOR}RescueTestCase'),
    'adoption': ('24.1', f'{_CONDUCTOR}ManagedTestCase'),
    'take-over by another conductor': (
        '24.1', f'{_CONDUCTOR}TakeOverTestCase', 'test_takeover.py'),
    'abort': ('24.1', f'{_AGENT}AbortTestCase'),
    'nodes that are never off (disable_power_off)': (
        '29', f'{_CONDUCTOR}DisablePowerOffTestCase'),
    'power, boot device, media, console, VIFs': (
        '24.1', f'{_CONDUCTOR}PowerTestCase'),
    'power sync and health': ('24.1', 'drift/test_drift.py::WatchTestCase'),
    'validation': (
        '24.1', f'{_CONDUCTOR}PowerTestCase::'
                'test_validation_of_all_interfaces',
        'interfaces/test_validate.py'),
}


def is_in(release, first='24.1', last=None):
    """Return whether a release is from the first to the last one."""
    index = RELEASES.index
    return index(first) <= index(release) <= index(last or RELEASES[-1])


def supported(kind, release):
    """List what the hardware type supports in a release, by name."""
    return [name for name in SUPPORTED[kind]
            if is_in(release, FIRST.get((kind, name), RELEASES[0]),
                     LAST.get((kind, name)))]


def methods(kind, release):
    """Return what a base class has in a release: arguments by name.

    :param kind: of the interface; 'base' for what all of them have.
    """
    known = BASE if kind == 'base' else METHODS[kind]
    return {name: arguments
            for name, (arguments, _, *first) in known.items()
            if is_in(release, *first)}


def answered_by(kind, who, release):
    """List the names of an interface that somebody answers in a release."""
    known = {**BASE, **METHODS[kind]}
    return [name for name, (_, answerer, *first) in known.items()
            if answerer is who and is_in(release, *first)]
