# SPDX-License-Identifier: Apache-2.0
"""The Ironic that the tests run with: its release, and what it has."""

from importlib import metadata
import inspect

from ironic.drivers import base
from oslo_utils import versionutils
import pytest

from quintupleo_power.interfaces import boot
from quintupleo_power.interfaces import console
from quintupleo_power.interfaces import deploy
from quintupleo_power.interfaces import inspect as inspect_interface
from quintupleo_power.interfaces import management
from quintupleo_power.interfaces import network
from quintupleo_power.interfaces import power
from quintupleo_power.interfaces import vendor
from tests.unit.contract import contracts

VERSION = metadata.version('ironic')
# The newest of those in the table that is not newer than the installed one.
RELEASE = [release for release in contracts.RELEASES
           if versionutils.convert_version_to_tuple(release)
           <= versionutils.convert_version_to_tuple(VERSION)][-1]

OURS = {
    'boot': boot.QuintupleoVirtualMediaBoot,
    'console': console.QuintupleoConsole,
    'deploy': deploy.QuintupleoRebuildDeploy,
    'inspect': inspect_interface.QuintupleoInspect,
    'management': management.QuintupleoManagement,
    'network': network.QuintupleoNetwork,
    'power': power.QuintupleoPower,
    'vendor': vendor.QuintupleoVendor,
}


def base_class(kind):
    """Return Ironic's base class of a kind of interface."""
    names = {'base': 'BaseInterface', 'bios': 'BIOSInterface',
             'raid': 'RAIDInterface'}
    return getattr(base, names.get(kind, f'{kind.title()}Interface'))


def is_own(kind, name):
    """Return whether this driver defines an attribute of an interface."""
    owner = next(each for each in OURS[kind].__mro__ if name in vars(each))
    return owner.__module__.startswith('quintupleo_power.')


def arguments(function):
    """Return what a method takes after self, without annotations."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty)
                  for each in signature.parameters.values()]
    return str(signature.replace(
        parameters=parameters[1:],
        return_annotation=signature.empty))[1:-1]


def since(first):
    """Make the mark of a test of what came with a release of Ironic."""
    return pytest.mark.skipif(
        not contracts.is_in(RELEASE, first),
        reason=f'Ironic {first} or later: this is {VERSION}')
