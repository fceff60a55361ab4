# SPDX-License-Identifier: Apache-2.0
"""A standalone Ironic with this driver, and what boots its nodes.

One ``ironic`` process (API and conductor) with SQLite and without
authentication, dnsmasq for DHCP and TFTP, nginx for HTTP. The API listens on
loopback; the machines reach only what an agent needs of it, through nginx.
"""

import functools
import ipaddress
import pathlib
import re
import shutil

from onebox import ironic_files
from onebox import processes
from onebox import releases
from onebox import system

# The last three are for ISOs that Ironic makes.
PACKAGES = ('dnsmasq-base', 'nginx-light', 'python3-venv', 'git',
            'genisoimage', 'isolinux', 'syslinux-common')
PYTHON = releases.PYTHON
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

# For the machines: networks that hardly anybody uses (RFC 5737 keeps the first
# three for documentation). The first is taken that is no network of this
# machine's own.
NETWORKS = ('198.51.100.0/24', '203.0.113.0/24', '192.0.2.0/24',
            '172.31.251.0/24')
API_PORT = 6385

# What the clients find this Ironic by.
CLOUD = 'quickstart'
CLOUDS_ENTRY = f'''\
  {CLOUD}:
    auth_type: none
    auth:
      endpoint: {{api_url}}
    baremetal_endpoint_override: {{api_url}}
'''


class Ironic:
    """The standalone Ironic of this machine.

    :param state: folder of all state.
    :param cache: folder of what can be made again.
    :param api_port: port of its API on loopback.
    :param venv: a Python environment that has an Ironic, of whatever release,
        and this checkout; None to have one made.
    :param version: version of Ironic to make it with, such as '35.0'; None
        for the newest that is tested.
    :param checkout: path of a checkout of Ironic that runs instead.
    """

    def __init__(self, state=None, cache=None, api_port=API_PORT, venv=None,
                 version=None, checkout=None):
        self.state = pathlib.Path(state or system.state_dir())
        self.cache = pathlib.Path(cache or system.cache_dir())
        self.api_port = api_port
        self._given_venv = venv and pathlib.Path(venv)
        self._checkout = checkout and pathlib.Path(checkout).resolve()
        version = version or self._checkout and _release_before(self._checkout)
        # With later libraries than those of its time it may not run.
        self._release = (releases.nearest(version) if version
                         else releases.NEWEST)
        self._version = version or self._release.name
        self.root = self.state / 'ironic'
        self.logs = self.state / 'logs'
        self.images = self.root / 'http' / 'images'
        self.conf = self.root / 'ironic.conf'
        self.leases = self.root / 'dnsmasq.leases'
        self.api_url = f'http://127.0.0.1:{api_port}'
        self._daemons = {
            name: processes.Daemon(name, self.root / 'run', self.logs)
            for name in ('ironic', 'dnsmasq', 'nginx')}

    @functools.cached_property
    def network(self):
        """The machines' network, chosen once for the life of this Ironic.

        :raises: system.Error when this machine uses all that are known.
        """
        kept = self.root / 'network'
        if not kept.exists():
            system.make_dir(self.root)
            system.write_file(kept, _free_network(), 0o644)
        return ipaddress.ip_network(kept.read_text())

    @property
    def address(self):
        """This machine's address on the machines' network."""
        return self.network[1]

    @property
    def pool(self):
        """First and last address that the host cloud may give to ports."""
        return self.network[10], self.network[99]

    @property
    def http_url(self):
        """Where the machines fetch what they boot."""
        return f'http://{self.address}:{ironic_files.HTTP_PORT}'

    @property
    def venv(self):
        """The Python environment of Ironic and the clients."""
        if self._given_venv:
            return self._given_venv
        python = system.run([PYTHON, '--version']).stdout
        key = system.digest(python, self._constraints, self._version,
                            releases.REQUIREMENTS.read_text(),
                            str(self._checkout or ''))
        return self.cache / 'ironic' / ('venv-' + key)

    @property
    def _constraints(self):
        """What fixes the versions of all but Ironic, as text."""
        return '\n'.join(
            line for line in self._release.constraints.read_text().splitlines()
            if not line.startswith(f'{self._release.package}=='))

    def install(self):
        """Make the Python environment and put this checkout into it."""
        if self._given_venv:
            return
        self._release.require_python()
        log = self.logs / 'ironic-python.log'
        system.make_dir(self.logs)
        system.install_packages(self._release.packages, log)
        constraints = self.logs / 'ironic-constraints.txt'
        system.write_file(constraints, self._constraints, 0o644)
        system.make_venv(
            self.venv, (f'{self._release.package}=={self._version}.*',
                        *self._release.companions), log, constraints, PYTHON)
        if self._checkout:
            # Again each time, as it may need other libraries by now.
            system.install(self.venv, ('--editable', str(self._checkout)), log)
        install_checkout(self.venv, log)

    def configure(self, device, credentials, glance=None):
        """Write the configuration and make the database.

        :param device: network device that is on the machines' network.
        :param credentials: options of [quintupleo] that name the host cloud,
            as a dict.
        :param glance: options of [glance], as a dict; None for no Glance.
        """
        system.make_dir(self.root, 0o755)
        for name in ironic_files.FOLDERS:
            system.make_dir(self.root / name)
        files = ironic_files.render(
            credentials, glance, root=self.root, logs=self.logs,
            address=self.address, api_port=self.api_port, device=device,
            # Its nodes are for tests.
            fault_injection='true',
            authentication='auth_strategy = noauth', host='onebox', logging=(
                f'log_file = {self.logs}/ironic.log\nuse_stderr = false'),
            lease_file=self.leases, leases=(
                f'dhcp-range={self.network[100]},{self.network[199]},'
                f'{self.network.netmask},12h\ndhcp-option=option:router'))
        for name, text in files.items():
            system.write_file(self.root / name, text,
                              0o600 if name == 'ironic.conf' else 0o644)
        self._create_database()

    def _create_database(self):
        # Which Ironic it was last used with.
        used = self.root / 'database.complete'
        if used.exists():
            if used.read_text() != str(self.venv) or self._checkout:
                # What runs is of another release, or of another day.
                self._daemons['ironic'].stop()
                self._dbsync('upgrade')
        else:
            (self.root / 'ironic.sqlite').unlink(missing_ok=True)
            self._dbsync('create_schema')
        system.write_file(used, str(self.venv), 0o644)

    def _dbsync(self, command):
        log = self.logs / 'ironic.log'
        if system.run([self.venv / 'bin' / 'ironic-dbsync', '--config-file',
                       self.conf, command], check=False, log=log,
                      env=self.environment()).returncode:
            raise system.Error(
                f'"ironic-dbsync {command}" failed. An older Ironic does not '
                'read the database of a newer one: "tools/quickstart --down" '
                'removes it.', log)

    def environment(self):
        """The environment of the services and of the clients."""
        return {
            'PATH': f'{self.venv}/bin:/usr/local/sbin:/usr/local/bin:'
                    '/usr/sbin:/usr/bin:/sbin:/bin',
            'HOME': str(self.root),
            'LC_ALL': 'C.UTF-8',
            'PYTHONWARNINGS': 'ignore',
            # Its memory stays level, see user/scale in the documentation.
            'MALLOC_MMAP_THRESHOLD_': '1048576',
            'OS_CLIENT_CONFIG_FILE': str(self.state / 'clouds.yaml'),
        }

    def start(self, stage, api_only=False):
        """Start all that is not running and wait until it answers.

        :param stage: the stage of the progress.
        :param api_only: leave out what boots machines.
        :raises: system.Error that names what did not come up and its log.
        """
        commands = {
            'nginx': ['/usr/sbin/nginx', '-c', self.root / 'nginx.conf'],
            'dnsmasq': ['/usr/sbin/dnsmasq', '--keep-in-foreground',
                        f'--conf-file={self.root}/dnsmasq.conf'],
            'ironic': [self.venv / 'bin' / 'ironic', '--config-file',
                       self.conf],
        }
        if api_only:
            commands = {'ironic': commands['ironic']}
        for name, command in commands.items():
            self._daemons[name].start(command, self.environment())
        stage.waiting('the Ironic API')
        processes.wait_for(
            lambda: processes.listening(self.api_port), 90, 'the Ironic API',
            stop=self._daemons['ironic'].require_alive)
        if api_only:
            return
        stage.waiting('HTTP for the machines')
        processes.wait_for(
            lambda: processes.listening(ironic_files.HTTP_PORT,
                                        str(self.address)), 20, 'nginx',
            stop=self._daemons['nginx'].require_alive)
        self._daemons['dnsmasq'].require_alive()

    def add_to(self, clouds_yaml):
        """Add an entry for this Ironic to the clients' configuration.

        :param clouds_yaml: path of a file that has others.
        """
        entry = CLOUDS_ENTRY.format(api_url=self.api_url)
        text = clouds_yaml.read_text()
        if entry not in text:
            system.write_file(clouds_yaml, text + entry)

    def stop(self):
        """Stop everything."""
        for daemon in reversed(self._daemons.values()):
            daemon.stop()

    def remove(self):
        """Stop everything and delete its state, but for the logs."""
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def _release_before(checkout):
    """Return the release that a checkout follows; None if git does not tell.

    :param checkout: path of a checkout of Ironic.
    """
    found = system.run(
        ['git', '-c', f'safe.directory={checkout}', '-C', checkout,
         'describe', '--tags', '--match', '[0-9]*'], check=False).stdout
    match = re.match(r'\d+\.\d+', found)
    return match and match[0]


def _free_network():
    """Choose a network that this machine has no address or route in."""
    used = []
    for line in system.run(['ip', '-4', '-o', 'route']).stdout.splitlines():
        try:
            used.append(ipaddress.ip_network(line.split()[0]))
        except ValueError:
            # "default" leads everywhere.
            continue
    for name in NETWORKS:
        if not any(ipaddress.ip_network(name).overlaps(each)
                   for each in used):
            return name
    raise system.Error(
        'This machine has routes to all networks that the virtual machines '
        f'could be on ({", ".join(NETWORKS)}).')


def install_checkout(venv, log):
    """Put this checkout into a Python environment, as it is now.

    :param venv: path of an environment with pbr and setuptools.
    :param log: file for the output of pip.
    """
    system.run(
        [venv / 'bin' / 'pip', 'install', '--no-deps',
         '--no-build-isolation', '--force-reinstall', '--quiet',
         '--disable-pip-version-check', REPOSITORY],
        log=log, env={
            'PATH': f'{venv}/bin:/usr/bin:/bin',
            'HOME': str(pathlib.Path.home()),
            'LC_ALL': 'C.UTF-8',
            # The clone may belong to the user who called sudo.
            'GIT_CONFIG_COUNT': '1',
            'GIT_CONFIG_KEY_0': 'safe.directory',
            'GIT_CONFIG_VALUE_0': str(REPOSITORY)})
