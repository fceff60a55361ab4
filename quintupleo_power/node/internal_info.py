# SPDX-License-Identifier: Apache-2.0
"""The keys of driver_internal_info; contributor/architecture explains them."""

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
