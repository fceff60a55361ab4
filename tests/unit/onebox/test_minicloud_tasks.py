# SPDX-License-Identifier: Apache-2.0
"""Tasks that wait for each other."""

import contextlib
import threading

import pytest

from onebox.minicloud import cloud
from onebox.minicloud import services
from onebox.minicloud import settings
from onebox.minicloud import tasks
from onebox import processes
from onebox import system


class Stage:

    @contextlib.contextmanager
    def step(self, name):
        yield


@pytest.mark.parametrize('volumes', [False, True])
@pytest.mark.parametrize('hypervisor', ['libvirt', 'fake'])
def test_every_service_can_be_started(hypervisor, volumes, tmp_path):
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    made.root.mkdir(parents=True)
    made.create(hypervisor)
    if volumes:
        made.add_volumes()
    work = cloud._tasks(made, None)
    order = [task.name for task in tasks.in_order(work)]
    assert len(order) == len(set(order))
    for first, then in (('databases', 'mariadb'), ('mariadb', 'keystone'),
                        ('keystone', 'accounts'),
                        ('accounts', 'nova-compute'),
                        ('ovs-vswitchd', 'neutron-openvswitch-agent'),
                        ('nova-compute', 'compute host')):
        assert order.index(first) < order.index(then)
    assert ('libvirtd' in order) == (hypervisor == 'libvirt')
    assert ('cinder-volume' in order) == volumes
    assert ('volume secret' in order) == (
        volumes and hypervisor == 'libvirt')
    if volumes:
        assert order.index('volume pool') < order.index('cinder-volume')


def test_layer3_is_begun_in_order(tmp_path):
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    made.root.mkdir(parents=True)
    made.create('libvirt', external_network='198.18.0.0/24')
    order = [task.name for task in tasks.in_order(cloud._tasks(made, None))]
    for first, then in (('ovs-vswitchd', 'public bridge'),
                        ('public bridge', 'neutron-openvswitch-agent'),
                        ('neutron-api', 'public network'),
                        ('neutron-rpc-server', 'neutron-l3-agent')):
        assert order.index(first) < order.index(then)


def test_layer3_is_decided_with_the_cloud(tmp_path, monkeypatch):
    monkeypatch.setattr(cloud, 'LONGEST_STATE_PATH', 1000)
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    with pytest.raises(system.Error, match='leave out "--layer3" or'):
        cloud.install(made, None, 'fake', layer3=True)
    assert not made.state.exists()
    made.root.mkdir(parents=True)
    made.create('libvirt')
    with pytest.raises(system.Error, match='a minicloud without layer 3'):
        cloud.install(made, None, layer3=True)
    made.values['hypervisor'] = 'fake'
    with pytest.raises(system.Error, match='leave out "--layer3" or'):
        cloud.install(made, None, layer3=True)


def test_a_cloud_that_is_there_gains_volumes(tmp_path):
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    made.root.mkdir(parents=True)
    made.create('fake')
    for name in ('databases', 'keystone bootstrap', 'accounts', 'flavors',
                 'compute host'):
        made.set_done(name)
    before = {task.name for task in cloud._tasks(made, None)}
    made.add_volumes()
    assert {task.name for task in cloud._tasks(made, None)} - before == {
        'ceph-mon', 'ceph-osd', 'volume pool', 'volume database',
        'volume accounts', 'cinder-api', 'cinder-scheduler', 'cinder-volume'}


def test_what_is_done_once_is_not_done_again(tmp_path):
    made = settings.Settings(tmp_path / 'state', tmp_path / 'cache')
    made.root.mkdir(parents=True)
    made.create('fake')
    for name in ('databases', 'keystone bootstrap', 'accounts', 'flavors',
                 'compute host'):
        made.set_done(name)
    assert ({task.name for task in cloud._tasks(made, None)}
            == {service.name for service in services.chosen('fake')})


def test_names_in_after_exist():
    known = {service.name for service in services.SERVICES} | {
        'accounts', 'public bridge', 'volume accounts', 'volume database',
        'volume pool'}
    for service in services.SERVICES:
        assert known.issuperset(service.after)


def test_packages_are_named_once():
    names = services.packages('libvirt')
    assert len(names) == len(set(names))
    assert 'qemu-system-x86' in names
    assert 'qemu-system-x86' not in services.packages('fake')


def test_circle():
    with pytest.raises(ValueError, match='a, b'):
        tasks.in_order([tasks.Task('a', None, ('b',)),
                        tasks.Task('b', None, ('a',)),
                        tasks.Task('c', None)])


def test_run_in_order_and_at_the_same_time():
    done = []
    meeting = threading.Barrier(2, timeout=60)

    def meet(name):
        meeting.wait()
        done.append(name)

    tasks.run([
        tasks.Task('last', lambda: done.append('last'), ('one', 'other')),
        tasks.Task('one', lambda: meet('one')),
        tasks.Task('other', lambda: meet('other'), ('not in this run',)),
    ], Stage())
    assert sorted(done[:2]) == ['one', 'other']
    assert done[2] == 'last'


def test_failure_ends_the_waiting_of_others():
    begun = threading.Event()

    def fail():
        begun.wait(60)
        raise system.Error('broken')

    def wait():
        begun.set()
        processes.wait_for(lambda: False, 60, 'nothing', interval=0.01)

    never = []
    with pytest.raises(system.Error, match='broken'):
        tasks.run([tasks.Task('wait', wait), tasks.Task('fail', fail),
                   tasks.Task('never', lambda: never.append(1), ('fail',))],
                  Stage())
    assert not never
    assert not processes.give_up.is_set()
