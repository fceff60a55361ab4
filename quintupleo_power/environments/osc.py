# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Commands ``openstack quintupleo ...``."""

from osc_lib.command import command
from osc_lib import exceptions
from osc_lib.i18n import _

from quintupleo_power.environments import images


class CreateImages(command.Lister):
    _description = _(
        'Make the images that a host cloud needs: those that boot a server '
        'from the network and the empty ones that servers are made from. '
        'What is there already stays.')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--iso', metavar='<file>', required=True,
            help=_('CD image to boot from the network with, as '
                   'tools/build-ipxe-image makes it'))
        parser.add_argument(
            '--network-first-iso', metavar='<file>',
            help=_('Make the images for network-first servers, too, of this '
                   'CD image, as tools/build-ipxe-image --network-first '
                   'makes it'))
        parser.add_argument(
            '--boot-mode', action='append', choices=images.BOOT_MODES,
            help=_('Boot mode to make images for; may be repeated '
                   '(default: both)'))
        parser.add_argument(
            '--prefix', metavar='<prefix>', default='quintupleo',
            help=_('What the names begin with (default: %(default)s); with '
                   'another one, set rescue_image_bios and rescue_image_uefi '
                   'in section [quintupleo]'))
        parser.add_argument(
            '--replace', action='store_true',
            help=_('Replace images of these names and other content'))
        return parser

    def take_action(self, parsed_args):
        columns = ('name', 'id', 'boot_mode', 'purpose', 'outcome')
        try:
            made = list(images.create_all(
                self.app.client_manager.sdk_connection, parsed_args.iso,
                parsed_args.boot_mode or images.BOOT_MODES,
                parsed_args.prefix, parsed_args.replace,
                parsed_args.network_first_iso))
        except images.ImageError as exc:
            raise exceptions.CommandError(str(exc))
        return (('Name', 'ID', 'Boot Mode', 'Purpose', 'Outcome'),
                [tuple(getattr(image, column) for column in columns)
                 for image in made])
