# SPDX-License-Identifier: Apache-2.0
"""An Ironic of one API and two conductors, which can be killed.

They share a database in the cloud's MariaDB (with SQLite Ironic's conductors
do not watch each other) and talk JSON-RPC. What they ask of Nova and of the
database goes through a relay that can stop them at a chosen request.
"""

import os
import random
import secrets
import signal

import yaml

from onebox import ironic_files
from onebox import lab
from onebox.minicloud import database
from onebox.minicloud import settings
from onebox import processes
from onebox import system

from tests.functional import relay

# Ironic's own, see Conductor.
JSON_RPC_PORT = 8089

# Seconds; as short as a busy machine allows, so that a take-over is soon.
HEARTBEAT_INTERVAL = 1
HEARTBEAT_TIMEOUT = 4

COMMON_CONF = '''\
[DEFAULT]
rpc_transport = json-rpc
hash_ring_reset_interval = 1
log_file =
use_stderr = true
default_log_levels = {log_levels}

[json_rpc]
auth_strategy = noauth

[database]
connection = {database}

[conductor]
heartbeat_interval = {heartbeat_interval}
heartbeat_timeout = {heartbeat_timeout}
check_provision_state_interval = 1
sync_power_state_interval = 1
sync_local_state_interval = 2

[deploy]
http_url = {published}

[quintupleo]
poll_interval = 0.5
server_list_max_age = 0.5
'''


class Conductor:
    """One conductor.

    :ivar host: the name by which Ironic knows it.
    """

    def __init__(self, name, pair):
        """Prepare it.

        :param name: name of its log and its other files.
        :param pair: the :class:`Pair`.
        """
        self._pair = pair
        # With a port of its own, Ironic would register it as host:port and
        # still lock nodes as host, so that nobody could free its nodes.
        self.host = _free_address()
        self._conf = pair.root / f'{name}.conf'
        self._daemon = processes.Daemon(name, pair.root / 'run', pair.logs)
        # Of an earlier run.
        self._daemon.log.unlink(missing_ok=True)
        system.write_file(self._conf, (f'[DEFAULT]\nhost = {self.host}\n'
                                       f'[json_rpc]\nhost_ip = {self.host}\n'
                                       ))

    def start(self):
        """Start it; it answers some seconds later."""
        self._daemon.start(self._pair.command('ironic-conductor', self._conf),
                           self._pair.environment())

    def wait_started(self):
        """Wait until it answers and has begun to look after its nodes."""
        processes.wait_for(
            lambda: processes.listening(JSON_RPC_PORT, self.host)
            and self._power_syncs(), 90,
            f'conductor {self.host}', stop=self._daemon.require_alive)

    def kill(self):
        """End it as a power failure does."""
        family = self._daemon.family()
        assert self._daemon.pid() in family
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        processes.wait_for(lambda: not self._daemon.family(), 10,
                           f'the end of conductor {self.host}', interval=0.02)

    def wait_power_sync(self, passes=2):
        """Wait until it has compared the power states of all its nodes.

        :param passes: how often; the first may have begun before.
        """
        begun = self._power_syncs()
        processes.wait_for(
            lambda: self._power_syncs() >= begun + passes, 60,
            f'a power sync of conductor {self.host}',
            stop=self._daemon.require_alive)

    def _power_syncs(self):
        return self._daemon.log.read_text(errors='replace').count(
            'Completed power state sync operation')

    def stop(self):
        """End it in peace."""
        self._daemon.stop()


class Pair:
    """An API and two conductors.

    It has what :class:`onebox.lab.Nodes` and :class:`onebox.lab.HostCloud`
    use of an :class:`onebox.ironic.Ironic`.

    A conductor that is killed is replaced at once by a new one, as an
    orchestrator does it, which joins while the other takes over.

    :ivar conductors: the two :class:`Conductor`.
    :ivar nova: the :class:`relay.Relay` before Nova's API.
    :ivar database: the :class:`relay.Relay` before the database.
    """

    def __init__(self, service, published, cloud_state=None):
        """Prepare the files.

        :param service: a configured :class:`onebox.ironic.Ironic`; lends
            its Python environment and its configuration.
        :param published: URL of what the conductors publish.
        :param cloud_state: state folder of the cloud, if not the usual one.
        """
        self._service = service
        self._cloud = settings.Settings(cloud_state)
        self.venv = service.venv
        self.state = service.state / 'pair'
        self.root = self.state
        self.logs = service.logs
        system.make_dir(self.root)
        system.make_dir(self.root / 'run')
        self._schema = f'ironic_{secrets.token_hex(4)}'
        self.nova = relay.Relay(('127.0.0.1', settings.PORTS['nova']))
        self.database = relay.Relay(self._cloud.run / 'mariadb' / 'socket')
        self._conf = self.root / 'common.conf'
        self._write_configuration(published)
        self._api_port = processes.free_port()
        self.api_url = f'http://127.0.0.1:{self._api_port}'
        self._api_conf = self.root / 'api.conf'
        system.write_file(self._api_conf,
                          f'[api]\nport = {self._api_port}\n')
        self._api = processes.Daemon('pair-api', self.root / 'run', self.logs)
        self._made = 0
        self.conductors = [self._new_conductor() for _ in range(2)]

    def _new_conductor(self):
        self._made += 1
        return Conductor(f'conductor-{self._made}', self)

    def _write_configuration(self, published):
        # The account is the database's name and password in one. The proxy
        # reads the statements: PyMySQL 1.2 prefers TLS, which MariaDB 11.4
        # and later have by default.
        system.write_file(self._conf, COMMON_CONF.format(
            database=f'mysql+pymysql://{self._schema}:{self._schema}'
                     f'@127.0.0.1:{self.database.port}/{self._schema}'
                     '?ssl_disabled=true',
            heartbeat_interval=HEARTBEAT_INTERVAL,
            heartbeat_timeout=HEARTBEAT_TIMEOUT, published=published,
            log_levels='ironic.conductor=DEBUG,' + ironic_files.LOG_LEVELS))
        clouds = yaml.safe_load(
            (self._service.state / 'clouds.yaml').read_text())
        clouds['clouds'][lab.CLOUD]['compute_endpoint_override'] = (
            f'http://127.0.0.1:{self.nova.port}/v2.1')
        system.write_file(self.state / 'clouds.yaml', yaml.safe_dump(clouds))

    def command(self, program, conf):
        """The command line of one of Ironic's programs."""
        return [self.venv / 'bin' / program,
                *(f'--config-file={path}' for path in (
                    self._service.conf, self._conf, conf))]

    def environment(self):
        """The environment of the programs."""
        return {**self._service.environment(),
                'OS_CLIENT_CONFIG_FILE': str(self.state / 'clouds.yaml')}

    def start(self):
        """Make the database and start everything."""
        log = self.logs / 'pair.log'
        name = self._schema
        database.sql(self._cloud, (
            f'CREATE DATABASE {name};'
            f"GRANT ALL ON {name}.* TO '{name}'@'localhost' "
            f"IDENTIFIED BY '{name}';"))
        system.run([*self.command('ironic-dbsync', self._api_conf),
                    'create_schema'], log=log, env=self.environment())
        for conductor in self.conductors:
            conductor.start()
        self._api.start(self.command('ironic-api', self._api_conf),
                        self.environment())
        self.wait_started()
        processes.wait_for(
            lambda: processes.listening(self._api_port), 60,
            'the API of two conductors', stop=self._api.require_alive)

    def kill(self, host, replace=True):
        """Kill a conductor.

        :param host: its name.
        :param replace: whether a new one takes its place; otherwise the
            same is to be started again.
        :returns: the :class:`Conductor`, dead.
        """
        victim = next(conductor for conductor in self.conductors
                      if conductor.host == host)
        victim.kill()
        if replace:
            self.conductors.remove(victim)
            self.conductors.append(self._new_conductor())
            self.conductors[-1].start()
        return victim

    def wait_started(self):
        """Wait until both conductors work."""
        for conductor in self.conductors:
            conductor.wait_started()

    def wait_power_sync(self):
        """Wait until both have compared the power states of all nodes."""
        for conductor in self.conductors:
            conductor.wait_power_sync()

    def remove(self):
        """Stop everything and drop the database."""
        self._api.stop()
        for conductor in self.conductors:
            conductor.stop()
        for each in (self.nova, self.database):
            each.close()
        database.sql(self._cloud, (
            f'DROP DATABASE IF EXISTS {self._schema};'
            f"DROP USER IF EXISTS '{self._schema}'@'localhost';"))

    def sql(self, statement):
        """Change the database past Ironic."""
        database.sql(self._cloud, f'USE {self._schema}; {statement};')


def _free_address():
    """An address of this machine where nobody takes JSON-RPC."""
    while True:
        found = f'127.{random.randint(1, 254)}.{random.randint(1, 254)}.1'
        if not processes.listening(JSON_RPC_PORT, found):
            return found
