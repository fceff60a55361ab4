# SPDX-License-Identifier: Apache-2.0
"""The keys of driver_internal_info that the driver keeps with a node."""

BOOT_DEVICE = 'quintupleo_boot_device'
BOOT_DEVICE_ONCE = 'quintupleo_boot_device_once'
PENDING_REQUEST = 'quintupleo_request'
BASELINE = 'quintupleo_seen'
BOOT_LOG = 'quintupleo_boot_log'
VIRTUAL_MEDIA = 'quintupleo_virtual_media'
CONSOLE = 'quintupleo_console'
INSTANCE_METADATA = 'quintupleo_instance_metadata'
FAULTS = 'quintupleo_faults'
LATE_REQUEST = 'quintupleo_late_request'

# What each one holds and the module that sets it.
KEYS = {
    BOOT_DEVICE: (
        'node.boot_device', 'the boot device that is wished for all boots'),
    BOOT_DEVICE_ONCE: (
        'node.boot_device', 'the boot device that is wished for one boot'),
    PENDING_REQUEST: (
        'node.pending_request',
        'the request that is being carried out, for another conductor to '
        'finish'),
    BASELINE: (
        'drift.baseline', 'the server as Ironic left it'),
    BOOT_LOG: (
        'boot_log', 'the failure whose console log was stored last'),
    VIRTUAL_MEDIA: (
        'media.virtual_media', 'the ISO in the CD-ROM drive'),
    CONSOLE: (
        'interfaces.console',
        'the type of the console that a conductor relays, and where'),
    INSTANCE_METADATA: (
        'rebuild.server_fields',
        'the metadata that a deployment has given to the server, for it to '
        'be removed with the instance'),
    FAULTS: ('faults.injection', 'the faults that are still to happen'),
    LATE_REQUEST: ('faults.injection', 'the power request to be done late'),
}
