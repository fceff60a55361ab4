# SPDX-License-Identifier: Apache-2.0
"""Whether the host cloud lets the project in, and what it is like."""

from quintupleo_power.checks import results
from quintupleo_power.host_cloud import capabilities
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import consoles

CREDENTIALS = 'credentials'
COMPUTE, IMAGES, NETWORKS = 'compute API', 'image API', 'network API'
VOLUMES, RESCUE = 'volume API', 'rescue'
# A policy cannot be read. What the project has already done proves that it
# may; without a proof only a trial shows it.
TRY = 'run this command with --try --flavor <flavor>'
ASK_OF_PORTS = ("ask the host cloud's operator for ports that Ironic's DHCP "
                'server reaches')

# What needs which compute API; the last one has all of it.
_FEATURES = {
    consoles.MICROVERSION: 'consoles',
    capabilities.VOLUME_RESCUE_MICROVERSION:
        'network boot of servers that boot from a volume',
    capabilities.VOLUME_REBUILD_MICROVERSION:
        'the step wipe_disk for servers that boot from a volume',
}


def checks(project: cloud_facts.CloudInfo) -> list[results.Check]:
    """Return the checks of the cloud's services."""
    need = (CREDENTIALS,)
    return [
        results.Check(CREDENTIALS, lambda facts: project.sign_in(),
                      _judge_credentials),
        results.Check(COMPUTE, lambda facts: project.compute.microversion,
                      _judge_microversion, need),
        results.Check(IMAGES, lambda facts: project.image.get(
            '/images', 'images', list, limit=1), _judge_reached, need),
        results.Check(NETWORKS, lambda facts: project.extensions(),
                      _judge_reached, need),
        # Without any compute API there the region is a wrong one.
        results.Check(
            VOLUMES, lambda facts: project.has_volumes(),
            lambda present: results.passed(
                'answers' if present else 'none: no server can have volumes '
                'or be network-first'), (COMPUTE,)),
    ]


def rescue_check(project: cloud_facts.CloudInfo) -> results.Check:
    """Return the check of whether the project may rescue servers."""
    return results.Check(RESCUE, lambda facts: project.has_rescued(),
                         _judge_rescue, (COMPUTE,))


def _judge_credentials(token):
    whose = f'user {token.user}'
    if not token.project_id:
        return results.failed(
            f'{whose} is signed in to no project',
            'name the project in clouds.yaml (project_name) or [quintupleo]')
    roles = {role.lower() for role in token.roles}
    whose += f', project {token.project}, roles {", ".join(token.roles)}'
    if roles == {'reader'}:
        return results.failed(
            f'{whose}: a reader starts and rescues no server',
            'have the role member given to that user in the project')
    if 'admin' in roles:
        return results.warned(
            f"{whose}: an administrator's credentials",
            'use those of a member, best an application credential: '
            '"openstack application credential create"')
    return results.passed(whose)


def _judge_microversion(version):
    found = '%d.%d is used' % version
    lacking = [feature for since, feature in _FEATURES.items()
               if version < since]
    if not lacking:
        return results.passed(found)
    return results.warned(
        f'{found}, which is without {"; without ".join(lacking)}',
        "ask the host cloud's operator for a newer Nova if that is needed")


def _judge_reached(_answer):
    return results.passed('answers')


def _judge_rescue(has_rescued):
    if has_rescued:
        return results.passed('servers of this project were rescued')
    return results.warned('nothing shows whether this project may rescue '
                          'servers', TRY)
