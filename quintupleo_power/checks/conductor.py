# SPDX-License-Identifier: Apache-2.0
"""Whether a conductor is set up for the hardware type."""

from oslo_config import cfg

from quintupleo_power.checks import results
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.environments import errors

GROUP = quintupleo_conf.GROUP
DRIVER = 'quintupleo'

# Without the first two there is no node; each of the others, and what nodes
# lack without it.
_REQUIRED = ('power', 'management')
_OPTIONAL = {
    'console': 'consoles of the host cloud',
    'inspect': 'inspection without an agent',
    'vendor': 'the console log and other vendor methods'}
# Seconds that Nova waits by default for a guest to shut down.
CLEAN_SHUTDOWN = 60
# Nova learns 15 s late that a guest has switched itself off, and Ironic gives
# up after two thirds of its time.
_SHORTEST_STATE_TIMEOUT = 30


def usual_files() -> list[str]:
    """Return the paths of the files that a conductor reads by default."""
    return cfg.find_config_files(project='ironic', prog='ironic-conductor')


def load(files: list[str]) -> cfg.ConfigOpts:
    """Read a conductor's configuration, and make the driver's code use it.

    Ironic itself need not be installed: options of its own that are not set
    are not judged. May raise EnvironmentsError.
    """
    try:
        cfg.CONF([], default_config_files=files, default_config_dirs=[])
        conf = cfg.ConfigOpts()
        conf.register_opts([
            cfg.ListOpt('enabled_hardware_types'),
            *(cfg.ListOpt(_option(name))
              for name in (*_REQUIRED, *_OPTIONAL))])
        conf.register_opt(cfg.IntOpt('power_state_change_timeout'),
                          group='conductor')
        conf.register_opts(quintupleo_conf.opts, group=GROUP)
        conf([], default_config_files=files, default_config_dirs=[])
        # oslo.config checks a value when it is read.
        for group in (conf, conf.conductor, conf[GROUP]):
            dict(group)
        return conf
    except (cfg.Error, ValueError) as exc:
        raise errors.EnvironmentsError(
            f'The configuration of the conductor in {", ".join(files)} '
            f'cannot be used: {exc}')


def _option(name):
    return f'enabled_{name}_interfaces'


def checks(conf: cfg.ConfigOpts) -> list[results.Check]:
    """Return the checks of a configuration."""
    return [results.Check(f'conductor: {name}', lambda facts: conf, judge)
            for name, judge in (('hardware type', _judge_hardware_type),
                                ('interfaces', _judge_interfaces),
                                ('times', _judge_times))]


def _judge_hardware_type(conf):
    enabled = conf.enabled_hardware_types
    if DRIVER in (enabled or ()):
        return results.passed(f'{DRIVER} is enabled')
    return results.failed(
        'enabled_hardware_types is '
        + (', '.join(enabled) if enabled else 'not set'),
        f'add {DRIVER} to [DEFAULT]enabled_hardware_types and restart the '
        'conductor')


def _judge_interfaces(conf):
    enabled = {name: conf[_option(name)] for name in (*_REQUIRED, *_OPTIONAL)}
    # Ironic chooses what is not set.
    lacking = [name for name, drivers in enabled.items()
               if drivers is not None and DRIVER not in drivers]
    if not lacking:
        return results.passed('those of quintupleo are enabled')
    advice = (f'add {DRIVER} to [DEFAULT]'
              + ' and '.join(map(_option, lacking))
              + ' and restart the conductor')
    if set(lacking) & set(_REQUIRED):
        return results.failed(
            f'the {" and ".join(lacking)} interfaces are not enabled', advice)
    return results.warned('nodes do without ' + ' and without '.join(
        _OPTIONAL[name] for name in lacking), advice)


def _judge_times(conf):
    ours = conf[GROUP]
    change_timeout = conf.conductor.power_state_change_timeout
    mistakes = []
    if ours.action_timeout <= CLEAN_SHUTDOWN:
        mistakes.append((
            f'[{GROUP}]action_timeout is {ours.action_timeout} s, and a '
            f'clean shutdown alone may take {CLEAN_SHUTDOWN} s',
            f'set [{GROUP}]action_timeout to 300'))
    if change_timeout and change_timeout < _SHORTEST_STATE_TIMEOUT:
        mistakes.append((
            f'[conductor]power_state_change_timeout is {change_timeout} s, '
            'and a host cloud may report 15 s late that a guest has switched '
            'itself off',
            'set [conductor]power_state_change_timeout to 60'))
    if not mistakes:
        return results.passed(f'action_timeout {ours.action_timeout} s')
    return results.warned(*map('; '.join, zip(*mistakes, strict=True)))
