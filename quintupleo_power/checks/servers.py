# SPDX-License-Identifier: Apache-2.0
"""Whether servers are fit to be machines."""

import dataclasses

from oslo_config import cfg

from quintupleo_power.checks import access
from quintupleo_power.checks import images
from quintupleo_power.checks import quotas
from quintupleo_power.checks import results
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images as host_images
from quintupleo_power.host_cloud import interfaces
from quintupleo_power import transitions

CONF = cfg.CONF
GROUP = quintupleo_conf.GROUP

_ANOTHER_PORT = ('make a port with --mac-address 52:54:00:... and '
                 '--disable-port-security, and give the server that one')


@dataclasses.dataclass(frozen=True)
class NetworkBoot:
    """How a server boots from the network.

    :ivar network_first: whether it asks the network by itself.
    :ivar obstacle: why it cannot be rescued, or None.
    :ivar boot_mode: 'bios', 'uefi' or None if nothing tells.
    :ivar image: UUID of the image to rescue it with, or None.
    """

    network_first: bool
    obstacle: str | None = None
    boot_mode: str | None = None
    image: str | None = None


def checks(project, host, reference, title=None):
    """List the checks of a server.

    :param project: the :class:`host_cloud.project.Project`.
    :param host: the same cloud's :class:`host_cloud.cloud.HostCloud`.
    :param reference: the server's UUID or name.
    :param title: what to call it; None for the reference.
    :returns: list of :class:`results.Check`.
    """
    name = f'server {title or reference}'
    need = (name,)
    return [
        results.Check(name, lambda facts: host.server(reference),
                       judge_server, (access.COMPUTE,)),
        results.Check(f'{name}: network boot',
                       lambda facts: _network_boot(host, facts[name]),
                       judge_network_boot, (name, access.IMAGES)),
        results.Check(f'{name}: flavor', lambda facts: (
            host.flavor(facts[name]), _root_disk(host, facts[name])),
            judge_flavor, need),
        results.Check(f'{name}: clean shutdown', lambda facts: (
            facts[name].image_id is not None,
            host.shutdown_timeout(facts[name])), judge_shutdown, need),
        results.Check(f'{name}: MAC addresses', lambda facts: project.ports(
            facts[name].id), judge_macs, (name, access.NETWORKS)),
        results.Check(f'{name}: port security', lambda facts: project.ports(
            facts[name].id), judge_security, (name, access.NETWORKS)),
        console_check(host, name, lambda facts: facts[name])]


def console_check(host, name, server):
    """Make the check of a server's consoles.

    :param host: the :class:`host_cloud.cloud.HostCloud`.
    :param name: name of the check that has read the server.
    :param server: function of the facts that returns the server.
    :returns: a :class:`results.Check`.
    """
    return results.Check(f'{name}: console', lambda facts: console_types(
        host, server(facts)), judge_consoles, (name,))


def _network_boot(host, server):
    if server.network_first:
        return NetworkBoot(True)
    obstacle = host.rescue_obstacle(server)
    if obstacle:
        return NetworkBoot(False, obstacle)
    mode = host.boot_mode(server)
    image = host.rescue_image(CONF[GROUP][
        f'rescue_image_{mode or host_images.BIOS}'])
    return NetworkBoot(False, None, mode, image)


def _root_disk(host, server):
    return host.root_disk(server, host.flavor(server))


def console_types(host, server):
    """Ask for a console of each type.

    Nova makes a token for each, which runs out by itself.

    :param host: the :class:`host_cloud.cloud.HostCloud`.
    :param server: the :class:`host_cloud.servers.Server`.
    :returns: list of the types that there are, or None if the server has no
        console as things stand.
    :raises: HostCloudError if the host cloud cannot be asked.
    """
    if server.state.power_state != transitions.PowerState.RUNNING:
        return None
    found = []
    for console_type in consoles.PROTOCOLS:
        try:
            host.console_url(server, console_type)
        except errors.NotOffered:
            continue
        except errors.NotFound:
            return None
        found.append(console_type)
    return found


def judge_server(server):
    """Judge the state of a server.

    :param server: the :class:`host_cloud.servers.Server`.
    :returns: a :class:`results.Verdict`.
    """
    refusal = transitions.refusal(server.state)
    if refusal:
        return results.failed(*map(str.strip, refusal.split(':', 1)))
    if server.state.vm_state == 'error':
        return results.failed(
            f'{server.status}: {server.fault or "it does not say why"}',
            'run "openstack server reboot --hard", or make it anew')
    if server.locked:
        return results.warned(
            f'{server.status}, and locked'
            + (f': {server.locked_reason}' if server.locked_reason else ''),
            'run "openstack server unlock": a lock stops the driver, too')
    return results.passed(server.status)


def judge_network_boot(boot):
    """Judge how a server boots from the network.

    :param boot: the :class:`NetworkBoot`.
    :returns: a :class:`results.Verdict`.
    """
    if boot.network_first:
        return results.passed('a network-first server')
    if boot.obstacle:
        return results.failed(*map(str.strip, boot.obstacle.split(':', 1)))
    if boot.boot_mode is None:
        return results.warned(
            'nothing tells its boot mode',
            'set the capability boot_mode of its node')
    return results.passed(f'by {boot.boot_mode}, with image {boot.image}')


def judge_flavor(read):
    """Judge a server's size.

    :param read: (:class:`host_cloud.flavors.Flavor`, GiB of its root disk or
        None if nothing tells).
    :returns: a :class:`results.Verdict`.
    """
    flavor, disk = read
    if disk == 0:
        return results.failed(
            f'{flavor.name} has a disk of 0 GiB: no system fits on it',
            'resize the server to a flavor with a disk, or boot it from a '
            'volume')
    return quotas.judge_flavor(flavor)


def judge_shutdown(read):
    """Judge how long Nova waits for a server's guest to shut down.

    :param read: (whether the server has an image, ``os_shutdown_timeout`` of
        that or None).
    :returns: a :class:`results.Verdict`.
    """
    has_image, timeout = read
    if timeout == 0:
        return results.passed('os_shutdown_timeout=0: a power off is a cut')
    seconds = images.shutdown(timeout)
    return results.warned(
        f'a power off, and a network boot while it runs, takes up to '
        f'{seconds} s' + ('' if has_image else
                          ', unless the image of its volume says otherwise'),
        'make the server from an image with os_shutdown_timeout=0')


def judge_macs(ports):
    """Judge whether the agent takes a server's network cards.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`results.Verdict`.
    """
    if not ports:
        return results.failed('it has no network card', _ANOTHER_PORT)
    ignored = [port.mac for port in ports
               if interfaces.is_ignored(port.mac)]
    if not ignored:
        return results.passed(', '.join(port.mac for port in ports))
    found = f'the agent passes over {", ".join(ignored)}'
    if len(ignored) == len(ports):
        return results.failed(f'{found}: no card is left', _ANOTHER_PORT)
    return results.warned(found, 'boot from another card, or '
                           + _ANOTHER_PORT)


def judge_security(ports):
    """Judge whether Neutron filters what a server sends and gets.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`results.Verdict`.
    """
    if not ports:
        return results.Verdict(results.SKIPPED, 'it has no network card')
    filtered = [port for port in ports if port.security]
    advice = '; '.join(
        'run "openstack port set --no-security-group '
        f'--disable-port-security {port.id}"' for port in filtered)
    told = 'Neutron filters what goes through ' + ', '.join(
        port.mac for port in filtered)
    if len(filtered) == len(ports):
        return results.failed(
            f"{told}: Ironic's DHCP does not come through", advice)
    if filtered:
        return results.warned(told, f'boot from another card, or {advice}')
    if any(port.security is None for port in ports):
        return results.warned(
            'Neutron does not tell whether it filters',
            "ask the host cloud's operator whether Ironic's DHCP server "
            'reaches these ports')
    return results.passed('off')


def judge_consoles(types):
    """Judge which consoles a server has.

    :param types: what :func:`console_types` returns.
    :returns: a :class:`results.Verdict`.
    """
    if types is None:
        return results.warned('it has none as things stand',
                               'power the server on and try again')
    if consoles.DEFAULT in types:
        return results.passed(', '.join(types))
    if types:
        return results.warned(
            f'{", ".join(types)}, and no {consoles.DEFAULT}',
            'set driver_info/quintupleo_console_type of the nodes to '
            f'{types[0]}')
    return results.warned(
        'the host cloud gives none',
        'use no-console as console_interface, and the console_log of the '
        'vendor passthru')
