# SPDX-License-Identifier: Apache-2.0
"""Whether servers are fit to be machines."""

import dataclasses

from oslo_config import cfg

from quintupleo_power.checks import access
from quintupleo_power.checks import allowances
from quintupleo_power.checks import findings
from quintupleo_power.checks import images
from quintupleo_power import conf as quintupleo_conf
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images as host_images
from quintupleo_power.host_cloud import ports as host_ports
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
    :returns: list of :class:`findings.Check`.
    """
    name = f'server {title or reference}'
    need = (name,)
    return [
        findings.Check(name, lambda facts: host.servers.get(reference),
                       judge_server, (access.COMPUTE,)),
        findings.Check(f'{name}: network boot',
                       lambda facts: _network_boot(host, facts[name]),
                       judge_network_boot, (name, access.IMAGES)),
        findings.Check(f'{name}: flavor', lambda facts: (
            host.capabilities.flavor(facts[name]),
            _root_disk(host.capabilities, facts[name])),
            judge_flavor, need),
        findings.Check(f'{name}: clean shutdown', lambda facts: (
            facts[name].image_id is not None,
            host.capabilities.shutdown_timeout(facts[name])),
            judge_shutdown, need),
        findings.Check(f'{name}: MAC addresses', lambda facts: project.ports(
            facts[name].id), judge_macs, (name, access.NETWORKS)),
        findings.Check(f'{name}: port security', lambda facts: project.ports(
            facts[name].id), judge_security, (name, access.NETWORKS)),
        console_check(host, name, lambda facts: facts[name])]


def console_check(host, name, server):
    """Make the check of a server's consoles.

    :param host: the :class:`host_cloud.cloud.HostCloud`.
    :param name: name of the check that has read the server.
    :param server: function of the facts that returns the server.
    :returns: a :class:`findings.Check`.
    """
    return findings.Check(f'{name}: console', lambda facts: console_types(
        host, server(facts)), judge_consoles, (name,))


def _network_boot(host, server):
    if server.network_first:
        return NetworkBoot(True)
    obstacle = host.capabilities.rescue_obstacle(server)
    if obstacle:
        return NetworkBoot(False, obstacle)
    mode = host.capabilities.boot_mode(server)
    image = host.images.find_rescue_image(CONF[GROUP][
        f'rescue_image_{mode or host_images.BIOS}'])
    return NetworkBoot(False, None, mode, image)


def _root_disk(capabilities, server):
    return capabilities.root_disk(server, capabilities.flavor(server))


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
            host.consoles.url(server, console_type)
        except errors.NotOffered:
            continue
        except errors.NotFound:
            return None
        found.append(console_type)
    return found


def judge_server(server):
    """Judge the state of a server.

    :param server: the :class:`host_cloud.servers.Server`.
    :returns: a :class:`findings.Verdict`.
    """
    refusal = transitions.refusal(server.state)
    if refusal:
        return findings.failed(*map(str.strip, refusal.split(':', 1)))
    if server.state.vm_state == 'error':
        return findings.failed(
            f'{server.status}: {server.fault or "it does not say why"}',
            'run "openstack server reboot --hard", or make it anew')
    if server.locked:
        return findings.warned(
            f'{server.status}, and locked'
            + (f': {server.locked_reason}' if server.locked_reason else ''),
            'run "openstack server unlock": a lock stops the driver, too')
    return findings.passed(server.status)


def judge_network_boot(boot):
    """Judge how a server boots from the network.

    :param boot: the :class:`NetworkBoot`.
    :returns: a :class:`findings.Verdict`.
    """
    if boot.network_first:
        return findings.passed('a network-first server')
    if boot.obstacle:
        return findings.failed(*map(str.strip, boot.obstacle.split(':', 1)))
    if boot.boot_mode is None:
        return findings.warned(
            'nothing tells its boot mode',
            'set the capability boot_mode of its node')
    return findings.passed(f'by {boot.boot_mode}, with image {boot.image}')


def judge_flavor(read):
    """Judge a server's size.

    :param read: (:class:`host_cloud.flavors.Flavor`, GiB of its root disk or
        None if nothing tells).
    :returns: a :class:`findings.Verdict`.
    """
    flavor, disk = read
    if disk == 0:
        return findings.failed(
            f'{flavor.name} has a disk of 0 GiB: no system fits on it',
            'resize the server to a flavor with a disk, or boot it from a '
            'volume')
    return allowances.judge_flavor(flavor)


def judge_shutdown(read):
    """Judge how long Nova waits for a server's guest to shut down.

    :param read: (whether the server has an image, ``os_shutdown_timeout`` of
        that or None).
    :returns: a :class:`findings.Verdict`.
    """
    has_image, timeout = read
    if timeout == 0:
        return findings.passed('os_shutdown_timeout=0: a power off is a cut')
    seconds = images.shutdown(timeout)
    return findings.warned(
        f'a power off, and a network boot while it runs, takes up to '
        f'{seconds} s' + ('' if has_image else
                          ', unless the image of its volume says otherwise'),
        'make the server from an image with os_shutdown_timeout=0')


def judge_macs(ports):
    """Judge whether the agent takes a server's network cards.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`findings.Verdict`.
    """
    if not ports:
        return findings.failed('it has no network card', _ANOTHER_PORT)
    ignored = [port.mac for port in ports
               if host_ports.is_ignored(port.mac)]
    if not ignored:
        return findings.passed(', '.join(port.mac for port in ports))
    found = f'the agent passes over {", ".join(ignored)}'
    if len(ignored) == len(ports):
        return findings.failed(f'{found}: no card is left', _ANOTHER_PORT)
    return findings.warned(found, 'boot from another card, or '
                           + _ANOTHER_PORT)


def judge_security(ports):
    """Judge whether Neutron filters what a server sends and gets.

    :param ports: list of :class:`host_cloud.project.Port`.
    :returns: a :class:`findings.Verdict`.
    """
    if not ports:
        return findings.Verdict(findings.SKIPPED, 'it has no network card')
    filtered = [port for port in ports if port.security]
    advice = '; '.join(
        'run "openstack port set --no-security-group '
        f'--disable-port-security {port.id}"' for port in filtered)
    told = 'Neutron filters what goes through ' + ', '.join(
        port.mac for port in filtered)
    if len(filtered) == len(ports):
        return findings.failed(
            f"{told}: Ironic's DHCP does not come through", advice)
    if filtered:
        return findings.warned(told, f'boot from another card, or {advice}')
    if any(port.security is None for port in ports):
        return findings.warned(
            'Neutron does not tell whether it filters',
            "ask the host cloud's operator whether Ironic's DHCP server "
            'reaches these ports')
    return findings.passed('off')


def judge_consoles(types):
    """Judge which consoles a server has.

    :param types: what :func:`console_types` returns.
    :returns: a :class:`findings.Verdict`.
    """
    if types is None:
        return findings.warned('it has none as things stand',
                               'power the server on and try again')
    if consoles.DEFAULT in types:
        return findings.passed(', '.join(types))
    if types:
        return findings.warned(
            f'{", ".join(types)}, and no {consoles.DEFAULT}',
            'set driver_info/quintupleo_console_type of the nodes to '
            f'{types[0]}')
    return findings.warned(
        'the host cloud gives none',
        'use no-console as console_interface, and the console_log of the '
        'vendor passthru')
