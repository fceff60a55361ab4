# SPDX-License-Identifier: Apache-2.0
"""Commands ``openstack quintupleo image``."""

from osc_lib.command import command
from osc_lib.i18n import _

from quintupleo_power.environments import errors
from quintupleo_power.environments import images
from quintupleo_power.osc import common


class CreateImages(common.Command, command.Lister):
    _description = _('Create the images that a host cloud needs')

    def add_arguments(self, parser):
        parser.add_argument(
            '--iso', metavar='<file>',
            help=_('CD image to boot from the network with, as '
                   'tools/build-ipxe-image makes it'))
        parser.add_argument(
            '--network-first-iso', metavar='<file>',
            help=_('Make the images for network-first servers, too, of this '
                   'CD image, as tools/build-ipxe-image --network-first '
                   'makes it'))
        parser.add_argument(
            '--conductor-image', metavar='<file>',
            help=_('Make the image of servers with Ironic, for roles of kind '
                   'ironic, of this qcow2 image, as '
                   'tools/build-conductor-image makes it'))
        parser.add_argument(
            '--secure-boot', action='store_true',
            help=_('Make the empty image for UEFI with secure boot'))
        parser.add_argument(
            '--boot-mode', action='append', choices=images.BOOT_MODES,
            dest='boot_modes',
            help=_('Boot mode to make images for; may be repeated '
                   '(default: both)'))
        parser.add_argument(
            '--hypervisor-type', metavar='<type>',
            help=_('Make images whose servers Nova schedules to hypervisors '
                   'of this type, such as qemu, lxc or vmware; it ends the '
                   'names of the empty images'))
        parser.add_argument(
            '--prefix', metavar='<prefix>', default='quintupleo',
            help=_('Prefix of the names (default: %(default)s). With another '
                   'one, set rescue_image_bios, rescue_image_uefi, '
                   'empty_image_bios, empty_image_uefi and '
                   'empty_image_secure_boot in section [quintupleo]. Name '
                   'the empty ones in environments'))
        parser.add_argument(
            '--replace', action='store_true',
            help=_('Replace images of these names and other content'))

    def take_action(self, parsed_args):
        with common.shown_progress(
                'Interrupted. The same command makes the other images.'):
            if not (parsed_args.iso or parsed_args.conductor_image
                    or parsed_args.secure_boot):
                raise errors.EnvironmentsError(
                    'Nothing to make images of: give --iso, '
                    '--conductor-image or --secure-boot')
            return ('Name', 'ID', 'Boot Mode', 'Purpose', 'Outcome'), [
                *images.create_all(common.connection(self.app), parsed_args)]
