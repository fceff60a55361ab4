# SPDX-License-Identifier: Apache-2.0
"""Whether Ironic can use a server as a node."""

from quintupleo_power.checks import access
from quintupleo_power.checks import images
from quintupleo_power.checks import quotas
from quintupleo_power.checks import results
from quintupleo_power.conf import CONF
from quintupleo_power.host_cloud import cloud
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import consoles
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import images as host_images
from quintupleo_power.host_cloud import ports as host_ports
from quintupleo_power import transitions

_ANOTHER_PORT = ('make a port with --mac-address 52:54:00:... and '
                 '--disable-port-security, and give the server that one')


def checks(project: cloud_facts.CloudInfo, host: cloud.HostCloud,
           reference: str, title: str | None = None) -> list[results.Check]:
    """Return the checks of a server by its UUID or name.

    :param title: the server's name in the results, instead of that.
    """
    name = f'server {title or reference}'
    return [
        results.Check(name, lambda facts: host.servers.get(reference),
                      _judge_server, (access.COMPUTE,)),
        results.Check(f'{name}: network boot',
                      lambda facts: _judge_network_boot(host, facts[name]),
                      needs=(name, access.IMAGES)),
        results.Check(f'{name}: flavor', lambda facts: _judge_flavor(
            host.capabilities, facts[name]), needs=(name,)),
        results.Check(f'{name}: clean shutdown', lambda facts: _judge_shutdown(
            host.capabilities, facts[name]), needs=(name,)),
        results.Check(f'{name}: MAC addresses', lambda facts: project.ports(
            facts[name].id), _judge_macs, (name, access.NETWORKS)),
        results.Check(f'{name}: port security', lambda facts: project.ports(
            facts[name].id), _judge_security, (name, access.NETWORKS)),
        console_check(host, name)]


def console_check(host: cloud.HostCloud, name: str) -> results.Check:
    """Return the check of the consoles of a server, read by another check."""
    # That may have been before it was powered on.
    return results.Check(f'{name}: console', lambda facts: _judge_consoles(
        host, host.servers.get(facts[name].id)), needs=(name,))


def _judge_server(server):
    refusal = transitions.refusal(server.state)
    if refusal:
        return results.failed(*map(str.strip, refusal.split(':', 1)))
    if server.state.vm_state == 'error':
        return results.failed(
            f'{server.status}: {server.fault or "it does not say why"}',
            'run "openstack server reboot --hard", or make it again')
    if server.locked:
        return results.warned(
            f'{server.status}, and locked'
            + (f': {server.locked_reason}' if server.locked_reason else ''),
            'run "openstack server unlock": a lock stops the driver, too')
    return results.passed(server.status)


def _judge_network_boot(host, server):
    if server.network_first:
        return results.passed('a network-first server')
    obstacle = host.capabilities.rescue_obstacle(server)
    if obstacle:
        return results.failed(*map(str.strip, obstacle.split(':', 1)))
    boot_mode = host.capabilities.boot_mode(server)
    image = host_images.find_rescue(host.image, CONF.quintupleo[
        f'rescue_image_{boot_mode or host_images.BIOS}'], host.rescue_images)
    if boot_mode is None:
        return results.warned(
            'nothing shows its boot mode',
            'set the capability boot_mode of its node')
    return results.passed(f'by {boot_mode}, with image {image}')


def _judge_flavor(capabilities, server):
    flavor = capabilities.flavor(server)
    if capabilities.root_disk(server, flavor) == 0:
        return results.failed(
            f'{flavor.name} has a disk of 0 GiB: no system fits on it',
            'resize the server to a flavor with a disk, or boot it from a '
            'volume')
    return quotas.judge_flavor(flavor)


def _judge_shutdown(capabilities, server):
    timeout = capabilities.shutdown_timeout(server)
    if timeout == 0:
        return results.passed('os_shutdown_timeout=0: a power off is a cut')
    seconds = images.shutdown(timeout)
    return results.warned(
        f'a power off, and a network boot while it runs, takes up to '
        f'{seconds} s' + ('' if server.image_id is not None else
                          ', unless the image of its volume says otherwise'),
        'make the server from an image with os_shutdown_timeout=0')


def _judge_macs(ports):
    if not ports:
        return results.failed('it has no network card', _ANOTHER_PORT)
    ignored = [port.mac for port in ports
               if host_ports.is_ignored(port.mac)]
    if not ignored:
        return results.passed(', '.join(port.mac for port in ports))
    found = f'the agent passes over {", ".join(ignored)}'
    if len(ignored) == len(ports):
        return results.failed(f'{found}: no card is left', _ANOTHER_PORT)
    return results.warned(found, f'boot from another card, or {_ANOTHER_PORT}')


def _judge_security(ports):
    if not ports:
        return results.skipped('it has no network card')
    filtered = [port for port in ports if port.security]
    advice = '; '.join(
        'run "openstack port set --no-security-group '
        f'--disable-port-security {port.id}"' for port in filtered)
    text = 'Neutron filters what goes through ' + ', '.join(
        port.mac for port in filtered)
    if len(filtered) == len(ports):
        return results.failed(
            f"{text}: Ironic's DHCP does not come through", advice)
    if filtered:
        return results.warned(text, f'boot from another card, or {advice}')
    if any(port.security is None for port in ports):
        return results.warned(
            'Neutron does not report whether it filters', access.ASK_OF_PORTS)
    return results.passed('off')


def _judge_consoles(host, server):
    none = results.warned('it has none as things stand',
                          'power the server on and try again')
    if server.state.power_state != transitions.PowerState.RUNNING:
        return none
    types = []
    for console_type in consoles.PROTOCOLS:
        try:
            # Nova makes a token for each, which runs out by itself.
            consoles.url(host.compute, server, console_type)
        except errors.NotOffered:
            continue
        except errors.NotFound:
            return none
        types.append(console_type)
    if consoles.DEFAULT in types:
        return results.passed(', '.join(types))
    if types:
        return results.warned(
            f'{", ".join(types)}, and no {consoles.DEFAULT}',
            'set driver_info/quintupleo_console_type of the nodes to '
            f'{types[0]}')
    return results.warned(
        'the host cloud offers none',
        'use no-console as console_interface, and the console_log of the '
        'vendor passthru')
