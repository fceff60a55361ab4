# SPDX-License-Identifier: Apache-2.0
"""Many nodes sent to PXE at once, beside the same by a script of the tenant.

The script has a thread for each server, which asks for the rescue and looks
once a second. The driver runs in a thread for each node, in three ways: by
itself, with nodes that Ironic has locked before; as Ironic's conductor runs
it, which includes Ironic's locks and database; and behind Ironic's API. What
Ironic takes alone, with its fake hardware, is shown beside the last two, and
beside the second what it takes with that script for a driver. With
``--apart`` the host cloud has a processor of its own. Run it with
``tools/benchmark many_to_pxe``.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import statistics
import sys
import time

import nova_lab
import report
import script

from onebox import system

# Whole answers in the log would be measured, too.
LOG_LEVELS = 'keystoneauth=INFO,ironic=INFO'
# Ironic's API closes connections where there are more.
API_THREADS = 8
# Of the columns of the table; None for whole numbers.
DIGITS = (1, 1, None, 1, 1, 1, 1, 2, 2, 2, None, 1, 1)
WAYS = ['driver', 'conductor', 'ironic']
SIDES = ('script', 'ironic', 'least', 'ours')


class Benchmark:
    """Both sides of the comparison."""

    def __init__(self, lab, pairs):
        self.lab = lab
        self.servers = [server for server, _ in pairs]
        self.nodes = [node for _, node in pairs]
        self.idle = lab.add_idle_nodes(len(pairs))
        self.rescue_image = lab.cloud.image.find_image(
            script.RESCUE_IMAGE, ignore_missing=False).id

    def by_a_script(self, number):
        """Rescue so many servers; return a dict of figures."""
        def rescue(server):
            script.rescue(self.lab.cloud.compute, server.id,
                          self.rescue_image)
            return time.monotonic()

        with self.lab.requests() as requests:
            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(number) as pool:
                ends = list(pool.map(rescue, self.servers[:number]))
            took = time.monotonic() - begun
        nova_lab.each(
            lambda server: script.unrescue(self.lab.cloud.compute, server.id),
            self.servers[:number])
        return {**_figures(took, requests),
                'half done': statistics.median(ends) - begun}

    def by_the_conductor(self, conductor, number, order='to_pxe'):
        """Set PXE and reboot so many nodes; return a dict of figures."""
        nodes = [node.id for node in self.nodes[:number]]
        with self.lab.requests() as requests:
            answer = conductor.ask(order, nodes)
        self._require_rescue(number)
        conductor.ask('to_disk', nodes)
        return {**_figures(answer['seconds'], requests),
                'half done': answer['half done'],
                'cpu seconds': answer['cpu seconds']}

    def _require_rescue(self, number):
        wrong = [server.name for server in map(
            self.lab.cloud.compute.get_server, self.servers[:number])
            if server.status != 'RESCUE']
        if wrong:
            raise system.Error('Not in RESCUE: ' + ', '.join(wrong))

    def by_the_driver(self, conductor, number):
        """Have nodes that Ironic has locked; return a dict of figures."""
        return self.by_the_conductor(conductor, number, 'driver_to_pxe')

    def by_a_script_in_ironic(self, conductor, number):
        """Have the script for a driver; return a dict of figures."""
        return self.by_the_conductor(conductor, number, 'script_to_pxe')

    def by_ironic_alone(self, conductor, number):
        """Have no driver and no Nova; return a dict of figures."""
        with self.lab.requests() as requests:
            answer = conductor.ask('to_pxe', [
                node.id for node in self.idle[:number]])
        return {**_figures(answer['seconds'], requests),
                'cpu seconds': answer['cpu seconds']}

    def by_ironic(self, number):
        """Set PXE and reboot so many nodes; return a dict of figures."""
        found = self._through_the_api(self.nodes[:number])
        self._require_rescue(number)
        api = self.lab.nodes.connection.baremetal
        for node in self.nodes[:number]:
            api.set_node_power_state(node, 'rebooting')
        self._wait({node.id for node in self.nodes[:number]})
        return found

    def by_ironic_alone_with_its_api(self, number):
        """Have no driver and no Nova; return a dict of figures."""
        return self._through_the_api(self.idle[:number])

    def _through_the_api(self, nodes):
        api = self.lab.nodes.connection.baremetal

        def send(node):
            api.set_node_boot_device(node, 'pxe', False)
            api.set_node_power_state(node, 'rebooting')

        with self.lab.requests() as requests:
            begun = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(API_THREADS) as pool:
                list(pool.map(send, nodes))
            self._wait({node.id for node in nodes})
            took = time.monotonic() - begun
        return _figures(took, requests)

    def _wait(self, wanted):
        deadline = time.monotonic() + 600
        while wanted:
            for node in self.lab.nodes.connection.baremetal.nodes(
                    fields=['uuid', 'target_power_state', 'last_error']):
                if node.last_error:
                    raise system.Error(node.last_error)
                if not node.target_power_state:
                    wanted.discard(node.id)
            if time.monotonic() > deadline:
                raise system.Error(f'{len(wanted)} nodes are not done.')
            time.sleep(0.25)


def _figures(took, requests):
    reads = [moment for moment, method, _ in requests if method == 'GET']
    # While nothing is sent any more, all there is to do is to wait.
    sent = [moment for moment, method, _ in requests if method == 'POST']
    waiting = [moment for moment in reads if sent and moment > max(sent)]
    seconds = collections.Counter(
        moment.replace(microsecond=0) for moment in waiting)
    waited = ((max(waiting) - max(sent)).total_seconds() if waiting else 0)
    return {'seconds': took, 'reads': len(reads), 'actions': len(sent),
            'reads/s': len(reads) / took,
            'reads/s when all are sent':
                len(waiting) / waited if waited > 1 else None,
            'most reads in a second': max(seconds.values(), default=0)}


def measure(benchmark, title, ours, arguments, alone=None, least=None):
    """Compare the script with one way of ours; return its results.

    :param alone: does what Ironic does without us.
    :param least: does it with the script in our place.
    """
    # Signs in and reads the images.
    benchmark.by_a_script(1), ours(1), least and least(1)
    results = []
    for number in arguments.nodes:
        for _ in range(arguments.rounds):
            row = {'nodes': number, 'way': title,
                   'script': benchmark.by_a_script(number),
                   'ours': ours(number),
                   'ironic': alone and alone(number),
                   'least': least and least(number)}
            print(f'{number} to PXE, {title}: ' + ', '.join(
                f'{side} {row[side]["seconds"]:.1f} s'
                for side in SIDES if row[side]), flush=True)
            results.append(row)
    return results


def _median(rows, side, key):
    values = [row[side][key] for row in rows
              if row[side] and row[side].get(key) is not None]
    return statistics.median(values) if values else None


def summary(results):
    """Medians of the rounds, as {(nodes, way): {what: figure}}."""
    found = {}
    for key in dict.fromkeys((row['nodes'], row['way']) for row in results):
        rows = [row for row in results if (row['nodes'], row['way']) == key]
        bare = _median(rows, 'script', 'seconds')
        alone = _median(rows, 'ironic', 'seconds')
        least = _median(rows, 'least', 'seconds')
        seconds = _median(rows, 'ours', 'seconds')
        found[key] = {
            'script: seconds': bare,
            'script: half done': _median(rows, 'script', 'half done'),
            'script: reads': _median(rows, 'script', 'reads'),
            'Ironic alone: seconds': alone,
            'the script in Ironic: seconds': least,
            'quintupleo: seconds': seconds,
            'half done': _median(rows, 'ours', 'half done'),
            'times the script': seconds / bare,
            'times both': (None if alone is None
                           else seconds / (bare + alone)),
            'times the script in Ironic': (
                None if least is None else seconds / least),
            **{what: _median(rows, 'ours', what) for what in (
                'reads', 'reads/s', 'reads/s when all are sent')}}
    return found


def table(found, rounds):
    """Lines of the table of so many rounds."""
    lines = [[f'nodes to PXE, median of {rounds} rounds',
              *next(iter(found.values()))]]
    for (number, way), figures in found.items():
        lines.append([f'{number}, {way}', *(
            value if value is None else round(value, digits)
            for value, digits in zip(figures.values(), DIGITS, strict=True))])
    return lines


def _with(conductor, *functions):
    return [functools.partial(function, conductor) for function in functions]


def main():
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--nodes', type=int, nargs='+', default=[1, 10, 100])
    parser.add_argument('--ways', nargs='+', choices=WAYS, default=WAYS,
                        help='the driver by itself, as the conductor runs '
                             'it, or behind the API of Ironic')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--apart', action='store_true',
                        help='give the host cloud a processor of its own, '
                             'and the others to the script and to Ironic')
    report.add_arguments(parser)
    arguments = parser.parse_args()
    results = []
    try:
        with contextlib.ExitStack() as undo:
            if arguments.apart:
                undo.enter_context(nova_lab.apart(system.state_dir()))
            lab = undo.enter_context(nova_lab.Lab(
                system.state_dir(), {},
                '[DEFAULT]', f'default_log_levels = {LOG_LEVELS}',
                *nova_lab.IDLE_LINES))
            benchmark = Benchmark(lab, lab.add(max(arguments.nodes)))
            if 'ironic' in arguments.ways:
                results += measure(benchmark, 'Ironic with its API',
                                   benchmark.by_ironic, arguments,
                                   benchmark.by_ironic_alone_with_its_api)
            if {'driver', 'conductor'} & {*arguments.ways}:
                with lab.conductor() as conductor:
                    # As power sync has, before anybody asks for anything.
                    conductor.ask('look', [
                        node.id for node in benchmark.nodes])
                    if 'conductor' in arguments.ways:
                        results += measure(
                            benchmark, 'the conductor', *_with(
                                conductor, benchmark.by_the_conductor),
                            arguments, *_with(
                                conductor, benchmark.by_ironic_alone,
                                benchmark.by_a_script_in_ironic))
                    if 'driver' in arguments.ways:
                        results += measure(
                            benchmark, 'the driver', *_with(
                                conductor, benchmark.by_the_driver),
                            arguments)
            found = summary(results)
            report.write(arguments, 'many-to-pxe-apart' if arguments.apart
                         else 'many-to-pxe', lab.versions(),
                         table(found, arguments.rounds), results)
    except system.Error as error:
        print(error.report(), file=sys.stderr)
        return 1
    except TimeoutError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
