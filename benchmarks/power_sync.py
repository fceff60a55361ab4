#!/usr/bin/python3
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

"""Power sync of many nodes: seconds, requests, processor time and memory.

A real Ironic looks at nodes whose servers are in a real Nova with its fake
hypervisor; what a pass took is what Ironic itself logs of it. Needs
``tools/minicloud up --hypervisor fake``; QUINTUPLEO_STATE_DIR says where, if
not in the usual place.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import sys
import time

import fake_lab

from onebox import system

PASS = re.compile(
    r'^(\S+ \S+) .*Completed power state sync operation.* in ([\d.]+) '
    r'seconds', re.MULTILINE)
PATIENCE = 1800
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
                    'memory MiB': process.memory() / 2 ** 20})
                used = now
    for figures in found:
        ended = figures.pop('ended')
        begun = ended - datetime.timedelta(seconds=figures['seconds'] + 0.5)
        figures['requests'] = sum(
            begun <= moment <= ended for moment, _, _ in requests)
    return found


def _measure(lab, number, driver, wanted):
    # The first one after a start signs in and finds its way.
    first, *found = passes(lab, wanted + 1)
    for name, each in (('first', [first]), ('median', found)):
        print(f'{number:>6} {driver:<18} {name:<8}' + ', '.join(
            f'{statistics.median(figures[key] for figures in each):.1f} {key}'
            for key in first), flush=True)
    return {'nodes': number, 'driver': driver, 'first': first,
            'passes': found}


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, nargs='+',
                        default=[10, 100, 1000])
    parser.add_argument('--passes', type=int, default=3)
    parser.add_argument('--interval', type=int, default=60,
                        help='seconds between two passes; more than '
                             'server_list_max_age, or nothing is read')
    parser.add_argument('--peer-nodes', type=int, nargs='*', default=[10, 100],
                        help='how many for sushy-tools and redfish')
    parser.add_argument('--json', metavar='FILE',
                        help='write all figures to this file')
    arguments = parser.parse_args()
    results = []
    try:
        lab = fake_lab.Lab(
            os.environ.get('QUINTUPLEO_STATE_DIR', '/var/lib/quintupleo'), {},
            '[DEFAULT]', f'default_log_levels = {LOG_LEVELS}',
            '[conductor]',
            f'sync_power_state_interval = {arguments.interval}',
            peer=bool(arguments.peer_nodes))
        try:
            for number in sorted({*arguments.nodes, *arguments.peer_nodes}):
                lab.add_servers(number - len(lab.servers))
                servers = [server.id for server in lab.servers]
                if number in arguments.nodes:
                    lab.set_nodes('quintupleo', [
                        {'quintupleo_server': each} for each in servers])
                    results.append(_measure(lab, number, 'quintupleo',
                                            arguments.passes))
                if number in arguments.peer_nodes:
                    lab.set_nodes('redfish', [
                        lab.peer.driver_info(each) for each in servers])
                    results.append(_measure(
                        lab, number, f'sushy-tools {lab.peer.version}',
                        arguments.passes))
        finally:
            lab.close()
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))
    return 0


if __name__ == '__main__':
    sys.exit(main())
