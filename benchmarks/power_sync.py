# SPDX-License-Identifier: Apache-2.0
"""Power sync of many nodes: seconds, requests, processor time and memory.

A real Ironic looks at nodes whose servers are in a real Nova with its fake
hypervisor, all but the first of them by :mod:`nova_copies`; what a pass took
is what Ironic itself logs of it. Beside it is what Ironic takes for as many
nodes of its fake hardware, and sushy-tools for a few. Run it with
``tools/benchmark power_sync``.
"""

import argparse
import datetime
import re
import statistics
import sys
import time

import nova_lab
import report
import sushy_tools

from onebox import system

PASS = re.compile(
    r'^(\S+ \S+) .*Completed power state sync operation.* in ([\d.]+) '
    r'seconds', re.MULTILINE)
# Seconds for one pass.
PATIENCE = 1800
OURS = 'quintupleo'
ALONE = 'fake'
PEER = 'redfish'
# What is shown of a pass, with how many decimals; None for whole numbers.
GROWTH = 'MiB more after all passes'
ENTRY = 'bytes of each server'
KEYS = {'seconds': 1, 'requests': None, 'cpu seconds': 1, 'memory MiB': None}
OUR_KEYS = {**KEYS, GROWTH: 1, 'threads': None, ENTRY: None}
# Whole answers in the log would be measured, too.
LOG_LEVELS = 'ironic.conductor.manager=DEBUG,keystoneauth=INFO'


def passes(lab, number):
    """Wait for so many passes; return a dict of figures for each."""
    log, position = lab.ironic_log, lab.ironic_log.stat().st_size
    process = lab.process()
    found, deadline = [], time.monotonic() + PATIENCE
    with lab.requests() as requests:
        used = process.cpu_seconds()
        while len(found) < number:
            if time.monotonic() > deadline:
                raise system.Error('Power sync took too long.', log)
            time.sleep(0.5)
            with open(log, errors='replace') as source:
                source.seek(position)
                ended = PASS.findall(source.read())
            if len(ended) > len(found):
                now = process.cpu_seconds()
                moment, seconds = ended[len(found)]
                found.append({
                    'ended': datetime.datetime.fromisoformat(moment),
                    'seconds': float(seconds), 'cpu seconds': now - used,
                    'memory MiB': process.memory() / 2 ** 20,
                    'threads': process.threads()})
                used, deadline = now, time.monotonic() + PATIENCE
    for figures in found:
        ended = figures.pop('ended')
        begun = ended - datetime.timedelta(seconds=figures['seconds'] + 0.5)
        figures['requests'] = sum(
            begun <= moment <= ended for moment, _, _ in requests)
    return found


def measure(lab, number, driver, wanted, more=0):
    """Watch passes of a driver; return a dict of figures.

    :param wanted: how many passes count.
    :param more: how many follow to see whether the memory grows.
    """
    # The first one after a start signs in and finds its way.
    first, *found = passes(lab, 1 + wanted + more)
    median = {key: statistics.median(figures[key]
                                     for figures in found[:wanted])
              for key in first}
    median[GROWTH] = found[-1]['memory MiB'] - found[0]['memory MiB']
    print(f'{number} nodes, {driver}: ' + ', '.join(
        f'{value:.1f} {key}' for key, value in median.items()), flush=True)
    return {'nodes': number, 'driver': driver, 'first': first,
            'passes': found, 'median': median}


def entry_bytes(lab):
    """Tell what the driver remembers of each server, in bytes."""
    nodes = [node.id for node in lab.nodes.connection.baremetal.nodes()]
    with lab.conductor() as conductor:
        return conductor.ask('entry bytes', nodes)['bytes']


def _of(results, driver):
    return {row['nodes']: row['median'] for row in results
            if row['driver'] == driver}


def table(results, passes, peer_passes):
    """Lines of the table.

    :param results: what :func:`measure` found, a list.
    :param passes: of how many passes the median is.
    :param peer_passes: of how many that of the peer is.
    """
    columns = [(OURS, _of(results, OURS), OUR_KEYS),
               ('Ironic alone', _of(results, ALONE),
                {'seconds': 1, 'cpu seconds': 1}),
               ('sushy-tools', _of(results, PEER), KEYS)]
    columns = [column for column in columns if column[1]]
    lines = [[f'nodes, median of {passes} passes'
              + (f', sushy-tools: {peer_passes}' if len(columns) > 2 else ''),
              *(f'{title}: {key}' for title, _, keys in columns
                for key in keys)]]
    for number in sorted({number for _, side, _ in columns
                          for number in side}):
        lines.append([number, *(
            round(side[number][key], digits) if number in side else None
            for _, side, keys in columns for key, digits in keys.items())])
    return lines


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, nargs='+',
                        default=[10, 100, 1000])
    parser.add_argument('--passes', type=int, default=3)
    parser.add_argument('--more-passes', type=int, default=0,
                        help='with the most nodes, to see whether the memory '
                             'grows')
    parser.add_argument('--interval', type=int, default=40,
                        help='seconds between two passes; more than '
                             'server_list_max_age, or nothing is read')
    parser.add_argument('--peer-nodes', type=int, nargs='*', default=[10, 100],
                        help='how many for sushy-tools and redfish')
    parser.add_argument('--peer-passes', type=int, default=1,
                        help='each takes a second for each node')
    sushy_tools.add_argument(parser)
    report.add_arguments(parser)
    arguments = parser.parse_args()
    results, servers = [], []
    try:
        with nova_lab.Lab(
                system.state_dir(), {},
                '[DEFAULT]', f'default_log_levels = {LOG_LEVELS}',
                *nova_lab.IDLE_LINES,
                '[conductor]',
                f'sync_power_state_interval = {arguments.interval}',
                peer=arguments.peer if arguments.peer_nodes else None) as lab:
            for number in sorted({*arguments.nodes, *arguments.peer_nodes}):
                # Passes over the peer's nodes would take what this needs.
                lab.set_nodes(OURS, [])
                servers += lab.add_servers(number - len(servers))
                if number in arguments.nodes:
                    lab.set_nodes('quintupleo', [
                        {'quintupleo_server': each} for each in servers])
                    results.append(measure(
                        lab, number, OURS, arguments.passes,
                        arguments.more_passes
                        if number == max(arguments.nodes) else 0))
                    results[-1]['median'][ENTRY] = entry_bytes(lab)
                    lab.set_nodes(ALONE, [{}] * number)
                    results.append(measure(lab, number, ALONE,
                                           arguments.passes))
                if number in arguments.peer_nodes:
                    lab.set_nodes(PEER, [
                        lab.peer.driver_info(each) for each in servers])
                    results.append(measure(lab, number, PEER,
                                           arguments.peer_passes))
            report.write(arguments, 'power-sync', lab.versions(),
                         table(results, arguments.passes,
                               arguments.peer_passes), results)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
