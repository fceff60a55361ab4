# SPDX-License-Identifier: Apache-2.0
"""Command ``openstack quintupleo check``."""

import contextlib

from osc_lib.command import command
from osc_lib.i18n import _

from quintupleo_power.checks import clouds
from quintupleo_power.checks import conductor
from quintupleo_power.checks import results
from quintupleo_power.checks import runner
from quintupleo_power.checks import trial
from quintupleo_power.environments import environment
from quintupleo_power.environments import errors
from quintupleo_power.osc import common


class Check(common.Command, command.Lister):
    _description = _('Check a host cloud, and a conductor that uses it')

    # Credentials that do not serve are something to be found, too.
    auth_required = False

    def add_arguments(self, parser):
        parser.add_argument(
            '--config-file', metavar='<file>', action='append',
            dest='config_files',
            help=_('Configuration of a conductor, which names the cloud, '
                   'its credentials and the images; may be repeated '
                   "(default: a conductor's own, unless a cloud is named)"))
        parser.add_argument(
            '--flavor', metavar='<flavor>',
            help=_('Flavor of a server to be made, for the quota and for '
                   '--try'))
        for what, metavar, help_text in (
                ('server', '<server>', _(
                    'Look at this server, too; UUID or name')),
                ('network', '<network>', _(
                    'Look at this network, on which servers are to be '
                    'provisioned; UUID or name')),
                ('environment', '<environment>', _(
                    'Look at the servers of this environment, too'))):
            parser.add_argument(
                f'--{what}', metavar=metavar, action='append', default=[],
                dest=f'{what}s', help=help_text + _('; may be repeated'))
        parser.add_argument(
            '--try', action='store_true', dest='is_trial',
            help=_('Make a server, use it, and remove it; needs --flavor'))
        common.add_timeout_option(
            parser, environment.TIMEOUT,
            _('With --try: how long to wait for one thing'))

    def take_action(self, parsed_args):
        with common.shown_progress(
                'Interrupted. Nothing is left of what --try made.'
                if parsed_args.is_trial else
                'Interrupted. Nothing was changed.') as shown:
            found = self._found(parsed_args, shown)
        self._has_failed = any(verdict.result == results.FAIL
                               for _, verdict in found)
        return ('Check', 'Result', 'Found', 'What To Do'), [
            (name, verdict.result, verdict.found, verdict.advice)
            for name, verdict in found]

    def run(self, parsed_args):
        """Run the command, and return 1 if a check failed, else 0."""
        return super().run(parsed_args) or int(self._has_failed)

    def _found(self, parsed_args, shown):
        if parsed_args.is_trial and not parsed_args.flavor:
            raise errors.EnvironmentsError(
                '--try needs the flavor of the server that it makes: give '
                '--flavor; "openstack flavor list" shows those that there '
                'are')
        options = self.app.options
        files = parsed_args.config_files
        if not (files or options.cloud or getattr(options, 'auth_url', None)):
            files = conductor.usual_files()
        settings = conductor.load(files) if files else None
        target = (clouds.of_conductor() if settings
                  else clouds.of_user(self.app.cloud_config, options))
        if not (parsed_args.is_trial and target.connection):
            return list(runner.run(target, parsed_args, settings))
        with contextlib.closing(trial.Trial(
                target, parsed_args.flavor, shown,
                parsed_args.timeout)) as tried:
            return list(runner.run(target, parsed_args, settings, tried))
