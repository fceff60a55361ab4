# SPDX-License-Identifier: Apache-2.0
"""Each cell of the state table against a real Nova."""

from ironic.common import boot_devices
from ironic.common import exception
from ironic.common import states
from ironic.conductor import task_manager
import pytest

from quintupleo_power.rebuild import disk_steps
from quintupleo_power import transitions
from tests.functional import cells
from tests.functional import model_cloud
from tests.functional import model_ironic

Device = transitions.Device
Request = transitions.Request
Situation = transitions.Situation

COLUMNS = {
    'on_disk': (states.POWER_ON, Device.DISK),
    'on_pxe': (states.POWER_ON, Device.PXE),
    'off': (states.POWER_OFF, Device.DISK),
    'reboot_disk': (states.REBOOT, Device.DISK),
    'reboot_pxe': (states.REBOOT, Device.PXE),
    'soft_off': (states.SOFT_POWER_OFF, Device.PXE),
    'soft_reboot_disk': (states.SOFT_REBOOT, Device.DISK),
    'soft_reboot_pxe': (states.SOFT_REBOOT, Device.PXE),
    'rebuild': (None, Device.PXE),
    'snapshot': (None, Device.PXE),
}
OFF = (states.POWER_OFF, states.SOFT_POWER_OFF, None)
IMAGE = 'image-of-the-state-table'
# What steps ask for, which no power state stands for.
STEPS = {
    'rebuild': (Request.REBUILD, lambda host, server: {
        'imageRef': server.image_id}),
    'snapshot': (Request.SNAPSHOT, lambda host, server: {
        'name': IMAGE}),
}
# The words of os-instance-actions.
WORDS = {
    transitions.Action.HARD_REBOOT: 'reboot',
    transitions.Action.SOFT_REBOOT: 'reboot',
    transitions.Action.SNAPSHOT: 'createImage',
}
HOME = {
    'stopped': 'start', 'rescued': 'unrescue', 'paused': 'unpause',
    'suspended': 'resume', 'error': 'hard reboot',
    'shelved_offloaded': 'unshelve', 'resized': 'revert the resize',
}


class HostCloud(model_cloud.HostCloud):
    """The host cloud, for those who go past Ironic."""

    def state(self, server_id):
        """Read a server as the state table sees it."""
        body = self._get(f'/servers/{server_id}')['server']
        return transitions.ServerState(
            body['OS-EXT-STS:vm_state'], body['OS-EXT-STS:power_state'],
            body['OS-EXT-STS:task_state'])

    def meddle(self, server_id, name):
        """Do something with a server and wait until it is done."""
        assert self.act(server_id, name), name
        self.wait(server_id, model_cloud.MEDDLING[name].ends_in,
                  model_cloud.MEDDLING[name].guest_on)

    def lock(self, server_id, reason, admin):
        """Lock a server, as its owner or as the administrator."""
        cloud = model_cloud.ADMIN if admin else model_cloud.TENANT
        self._connections[cloud].compute.post(
            f'/servers/{server_id}/action', microversion='2.73',
            json={'lock': {'locked_reason': reason}}).raise_for_status()

    def begin_create(self, **more):
        """Ask for a server, and do not wait for it."""
        return self._tenant.compute.create_server(**{
            'name': 'table', 'image_id': self.image, 'networks': 'none',
            'flavor_id': self._flavors['tiny'], **more}).id

    def create_too_large(self):
        """Ask for a server that no hypervisor has room for."""
        server = self.begin_create(flavor_id=self._huge())
        self.wait(server, ('error',))
        return server

    def _huge(self):
        compute = self._connections[model_cloud.ADMIN].compute
        name = 'more-than-there-is'
        return (compute.find_flavor(name) or compute.create_flavor(
            name=name, ram=1 << 20, vcpus=1, disk=1)).id

    def delete_through(self, url, server_id):
        """Delete a server through another compute API."""
        self._tenant.session.delete(f'{url}/servers/{server_id}')
        self.wait(server_id, ('soft-delete',))

    def force_delete(self, server_id):
        """Delete a server for good."""
        self._connections[model_cloud.ADMIN].compute.delete_server(
            server_id, force=True)
        self.wait(server_id, (None,))

    def delete_images(self, name):
        """Delete the tenant's images of a name."""
        images = self._tenant.image
        for image in images.images(name=name):
            images.delete_image(image)

    @property
    def _tenant(self):
        return self._connections[model_cloud.TENANT]


class Conductor(model_ironic.Conductor):
    """A conductor that asks the driver without a look beforehand."""

    __test__ = False

    def set_power_state(self, node, power_state):
        """Ask for a power state that the node may have already."""
        with task_manager.acquire(self.context, node, shared=False) as task:
            try:
                if power_state == states.REBOOT:
                    task.driver.power.reboot(task)
                else:
                    task.driver.power.set_power_state(task, power_state)
            finally:
                # As Ironic does when a request has ended.
                task.node.save()

    def run_step(self, node, step):
        """Ask for what a clean or service step asks for."""
        with task_manager.acquire(self.context, node, shared=False) as task:
            try:
                disk_steps.carry_out(task, step, *STEPS[step])
            finally:
                # As Ironic does when a step has failed.
                task.node.save()


class Machine:
    """A server of the host cloud and its node in an Ironic of this process.

    :ivar server: the server's UUID.
    :ivar node: the node's UUID.
    """

    def __init__(self, conductor, host_cloud, server=None):
        self.conductor = conductor
        self.host_cloud = host_cloud
        self.server = server or host_cloud.create()
        self.node = conductor.enroll(self.server)

    def lead(self, situation):
        """Bring the server into a situation."""
        vm_state = self.host_cloud.look(self.server).machine.vm_state
        steps = list(cells.WAYS_IN[situation])
        if vm_state != 'active':
            steps.insert(0, HOME[vm_state])
        for step in steps:
            self.host_cloud.meddle(self.server, step)
        assert self.situation() is situation

    def state(self):
        """Read the server as the state table sees it."""
        return self.host_cloud.state(self.server)

    def situation(self):
        """Read which row of the table the server is in."""
        return transitions.situation(self.state())

    def actions(self):
        """Nova's names of what was done with the server, oldest first."""
        return [name for _, name in self.host_cloud.rows(self.server)]

    def ask(self, column, persistent=False):
        """Ask the driver for what a column stands for."""
        power_state, device = COLUMNS[column]
        self.conductor.set_boot_device(self.node, {
            Device.DISK: boot_devices.DISK,
            Device.PXE: boot_devices.PXE}[device], persistent)
        if column in STEPS:
            self.conductor.run_step(self.node, column)
        else:
            self.conductor.set_power_state(self.node, power_state)

    def refuses(self, column='reboot_disk'):
        """Ask, and return the sentence of the refusal."""
        with pytest.raises(exception.DriverOperationError) as caught:
            self.ask(column)
        return str(caught.value)

    def cannot_be_used(self):
        """Validate, and return the sentence of the refusal."""
        with pytest.raises(exception.InvalidParameterValue) as caught:
            self.conductor.validate(self.node)
        return str(caught.value)


@pytest.fixture(scope='module')
def host_cloud(deployment):
    """The host cloud, for those who go past Ironic."""
    return HostCloud(deployment.clouds_yaml)


@pytest.fixture(scope='module')
def conductor(deployment):
    """A conductor in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('OS_CLIENT_CONFIG_FILE', str(deployment.clouds_yaml))
        # Ironic's base class would end the tests after some time.
        for name in ('BASE_TEST_TIMEOUT', 'OS_TEST_TIMEOUT'):
            patch.setenv(name, '0')
        found = Conductor()
        found.setUp()
        # What is read must be of the state that the server was led into.
        found.configure(server_list_max_age=0, force=True)
        try:
            yield found
        finally:
            found.doCleanups()


@pytest.fixture(scope='module')
def machine(conductor, host_cloud):
    """A machine that goes through many situations."""
    found = Machine(conductor, host_cloud)
    yield found
    host_cloud.delete(found.server)
    host_cloud.delete_images(IMAGE)


@pytest.fixture
def own_machine(conductor, host_cloud):
    """A machine of one test's own."""
    found = Machine(conductor, host_cloud)
    yield found
    host_cloud.delete(found.server)


@pytest.mark.parametrize(
    ('situation', 'column'), cells.CELLS,
    ids=[f'{situation.value}-{column}' for situation, column in cells.CELLS])
def test_cell(machine, situation, column):
    machine.lead(situation)
    power_state, device = COLUMNS[column]
    before, earlier = machine.state(), machine.actions()
    actions = getattr(transitions.TABLE[situation], column)
    machine.ask(column, persistent=column.startswith('soft'))

    state = machine.state()
    assert not state.task_state
    assert machine.actions()[len(earlier):] == [
        WORDS.get(action, action.value) for action in actions]
    if power_state in OFF:
        assert transitions.is_on(state) is False
    else:
        assert transitions.is_on(state) is True
    if actions and actions[-1].boots:
        assert transitions.device_in_use(state) is device
    elif not actions:
        assert state == before
    # A one-time device is gone after a boot, and stays until then.
    found, persistent = machine.conductor.get_boot_device(machine.node)
    if not column.startswith('soft') and actions and actions[-1].boots:
        assert (found, persistent) != (device.value, False)
    else:
        assert found == device.value


@pytest.mark.parametrize('situation', cells.REFUSED)
def test_refused(machine, situation):
    machine.lead(situation)
    earlier = machine.actions()
    sentence = transitions.REFUSALS[situation]
    assert sentence in machine.cannot_be_used()
    for column in cells.COLUMNS:
        reason = machine.refuses(column)
        assert sentence in reason
        assert machine.node in reason
        assert machine.server in reason
    assert machine.actions() == earlier


def test_refused_while_being_built(deployment, conductor, host_cloud):
    with deployment.compute_host_down():
        machine = Machine(conductor, host_cloud, host_cloud.begin_create())
        assert machine.situation() is Situation.BUILD
        assert (transitions.REFUSALS[Situation.BUILD]
                in machine.cannot_be_used())
        # A request waits: the building is a task in progress.
        assert 'did not end within' in machine.refuses()
    host_cloud.wait(machine.server, ('active',))
    host_cloud.delete(machine.server)


def test_refused_when_deleted(conductor, host_cloud):
    machine = Machine(conductor, host_cloud)
    host_cloud.delete(machine.server)
    assert 'does not exist' in machine.cannot_be_used()
    for column in cells.COLUMNS:
        reason = machine.refuses(column)
        assert 'does not exist' in reason
        assert machine.server in reason


@pytest.mark.full
def test_refused_when_soft_deleted(deployment, conductor, host_cloud,
                                   tmp_path):
    machine = Machine(conductor, host_cloud)
    with deployment.soft_deleting_api(tmp_path) as url:
        host_cloud.delete_through(url, machine.server)
    try:
        sentence = transitions.REFUSALS[Situation.SOFT_DELETED]
        assert sentence in machine.cannot_be_used()
        for column in cells.COLUMNS:
            assert sentence in machine.refuses(column)
    finally:
        host_cloud.force_delete(machine.server)


@pytest.mark.parametrize('owner', ['tenant', 'administrator'])
def test_locked(own_machine, owner):
    own_machine.host_cloud.lock(own_machine.server, 'the demo is on',
                                admin=owner == 'administrator')
    before, earlier = own_machine.state(), own_machine.actions()
    for column in cells.COLUMNS:
        if getattr(transitions.TABLE[Situation.ACTIVE], column):
            assert ('locked ("the demo is on"): run "openstack server unlock"'
                    in own_machine.refuses(column))
        else:
            own_machine.ask(column)
    own_machine.conductor.validate(own_machine.node)
    assert own_machine.state() == before
    assert own_machine.actions()[len(earlier):] in (['lock'], [])
    own_machine.host_cloud.meddle(own_machine.server, 'unlock')
    own_machine.ask('reboot_pxe')
    assert own_machine.situation() is Situation.RESCUE


def test_error_of_a_server_that_was_never_built(conductor, host_cloud):
    machine = Machine(conductor, host_cloud, host_cloud.create_too_large())
    for column in ('on_disk', 'off', 'reboot_pxe'):
        assert 'No valid host was found' in machine.refuses(column)
    assert machine.actions() == ['create']
    host_cloud.delete(machine.server)


def test_host_down(deployment, own_machine):
    """Nova takes the action and sends it to a host that does not answer."""
    with deployment.compute_host_down():
        reason = own_machine.refuses('off')
    assert 'powering-off' in reason
    assert 'compute host' in reason
    # What Nova was told it does when the host is back.
    own_machine.host_cloud.wait(own_machine.server, ('stopped',))
    own_machine.ask('on_pxe')
    assert own_machine.situation() is Situation.RESCUE


def test_task_in_progress_is_waited_for(own_machine):
    own_machine.host_cloud.act(own_machine.server, 'hard reboot')
    own_machine.ask('reboot_pxe')
    assert own_machine.actions()[-2:] == ['reboot', 'rescue']


def test_every_cell_is_proved_or_excused():
    for situation in Situation:
        for column in cells.COLUMNS:
            cells.proof(situation, column)
