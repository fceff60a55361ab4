# SPDX-License-Identifier: Apache-2.0
"""Whether a service answers as it should."""

import datetime
import json
import socket
import subprocess
import urllib.error
import urllib.request

from onebox.minicloud import api
from onebox.minicloud import settings
from onebox import processes
from onebox import system


def alive(cloud, service):
    """A service without an API of its own: it has not ended."""
    return processes.Daemon(service.name, cloud.run, cloud.logs).pid()


def http(port, path):
    """Return a check that an API answers a request."""
    def check(cloud, service):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            opener.open(cloud.url(port, path), timeout=10).close()
        except urllib.error.HTTPError as error:
            return error.code < 500
        except OSError:
            return False
        return True
    return check


def amqp(cloud, service):
    """RabbitMQ answers a greeting in its own protocol."""
    address = (settings.ADDRESS, settings.PORTS['rabbitmq'])
    try:
        with socket.create_connection(address, timeout=5) as client:
            client.sendall(b'AMQP\0\0\x09\x01')
            return len(client.recv(8)) == 8
    except OSError:
        return False


def memcached_folder(cloud, service):
    """Make the folder of memcached's socket."""
    system.make_dir(cloud.run / 'memcached', 0o700)


def memcached(cloud, service):
    """memcached tells its version."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(cloud.run / 'memcached' / 'socket'))
            client.sendall(b'version\r\n')
            return client.recv(64).startswith(b'VERSION')
    except OSError:
        return False


def nova_service(cloud, service):
    """A Nova service runs and is up, as Nova itself sees it."""
    try:
        listed = api.admin(cloud).get('nova', '/v2.1/os-services')
    except api.Failure:
        return False
    return any(each['binary'] == service.name and each['state'] == 'up'
               and _since_start(cloud, service, each['updated_at'])
               for each in listed['services'])


def cinder_service(cloud, service):
    """A Cinder service runs and is up, as Cinder itself sees it."""
    try:
        listed = api.admin(cloud).get('cinder', '/v3/os-services')
    except api.Failure:
        return False
    return any(each['binary'] == service.name and each['state'] == 'up'
               and _since_start(cloud, service, each['updated_at'])
               for each in listed['services'])


def cinder_volume(cloud, service):
    """cinder-volume is up, and the scheduler has heard of its pool.

    A scheduler that has missed it waits for the next word, a minute at most,
    and then fails what was asked for.
    """
    if not cinder_service(cloud, service):
        return False
    try:
        known = api.admin(cloud).get(
            'cinder', '/v3/scheduler-stats/get_pools')
    except api.Failure:
        return False
    return bool(known['pools'])


# What Neutron's agents ask their server by.
_NEUTRON_QUEUES = ('q-plugin', 'q-reports-plugin')
_HAVE_CONSUMERS = '''
import json, sys
import amqp
order = json.load(sys.stdin)
with amqp.Connection(**order['connection']) as connection:
    channel = connection.channel()
    sys.exit(not all(
        channel.queue_declare(queue, passive=True).consumer_count
        for queue in order['queues']))
'''


def neutron_rpc(cloud, service):
    """Neutron's server takes what its agents ask.

    Before that RabbitMQ drops it, and an agent whose first request is lost
    waits for the answer all of rpc_response_timeout.
    """
    if not alive(cloud, service):
        return False
    order = {'queues': _NEUTRON_QUEUES, 'connection': {
        'host': f'{settings.ADDRESS}:{settings.PORTS["rabbitmq"]}',
        'userid': settings.RABBIT_USER,
        'password': cloud.password('rabbitmq'), 'connect_timeout': 5}}
    return subprocess.run(
        [cloud.venv / 'bin' / 'python', '-c', _HAVE_CONSUMERS],
        input=json.dumps(order), text=True, env=cloud.environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def neutron_agent(cloud, service):
    """The agent runs and is alive, as Neutron itself sees it."""
    try:
        listed = api.admin(cloud).get('neutron', '/v2.0/agents')
    except api.Failure:
        return False
    return any(each['binary'] == service.name and each['alive']
               and _since_start(cloud, service, each['heartbeat_timestamp'])
               for each in listed['agents'])


def _since_start(cloud, service, reported):
    """Whether a report came from the process that runs now.

    A service that was killed counts as up for another minute.
    """
    daemon = processes.Daemon(service.name, cloud.run, cloud.logs)
    if not daemon.pid():
        return False
    if not reported:
        return True
    moment = datetime.datetime.fromisoformat(reported[:19])
    moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() >= int(daemon.pid_file.stat().st_mtime)
