# SPDX-License-Identifier: Apache-2.0
"""The base classes of the installed Ironic are those of the table.

A release that adds, removes or changes a method fails here, by its name.
"""

from importlib import metadata
import inspect

from ironic.drivers import base
import pytest

from quintupleo_power import hardware
from tests.unit.contract import contracts
from tests.unit.contract import installed

KINDS = sorted(installed.OURS)


def _public_members(kind):
    members = {}
    for name, member in vars(installed.base_class(kind)).items():
        if not name.startswith('_'):
            members[name] = (installed.arguments(member)
                             if inspect.isfunction(member) else None)
    return members


@pytest.mark.parametrize('kind', ['base', *KINDS])
def test_base_class_is_that_of_the_table(kind):
    found = _public_members(kind)
    of_all = contracts.methods('base', installed.RELEASE)
    known = contracts.methods(kind, installed.RELEASE)
    if kind != 'base':
        # Some say again what all of them have.
        known = {name: arguments for name, arguments
                 in {**of_all, **known}.items()
                 if name in found or name not in of_all}

    assert [] == [
        f'{installed.base_class(kind).__name__}.{name}: '
        f'Ironic {installed.VERSION} has {found.get(name, "nothing")!r}, '
        f'the table {known.get(name, "nothing")!r}'
        for name in sorted({*found, *known})
        if found.get(name, '-') != known.get(name, '-')]


def test_kinds_of_interfaces_are_those_of_the_table():
    assert set(contracts.SUPPORTED) == base.ALL_INTERFACES
    assert set(contracts.METHODS) == {*KINDS}


@pytest.mark.parametrize('kind', sorted(contracts.SUPPORTED))
def test_hardware_type_supports_the_interfaces_of_the_table(kind):
    names = {
        each.load(): each.name for each in metadata.entry_points(
            group=f'ironic.hardware.interfaces.{kind}')
        if each.name in contracts.SUPPORTED[kind]}
    supported = getattr(hardware.QuintupleoHardware(),
                        f'supported_{kind}_interfaces')

    assert sorted(contracts.supported(kind, installed.RELEASE)) == sorted(
        names.get(each, each.__name__) for each in supported)


@pytest.mark.parametrize('kind', KINDS)
def test_each_abstract_method_is_defined(kind):
    assert not installed.OURS[kind].__abstractmethods__
    assert issubclass(installed.OURS[kind], installed.base_class(kind))
    assert installed.OURS[kind].interface_type == kind
    assert installed.OURS[kind].supported


@pytest.mark.parametrize('kind, name', [
    (kind, name) for kind in KINDS
    for name in contracts.answered_by(kind, contracts.OWN, installed.RELEASE)])
def test_method_is_this_drivers_own(kind, name):
    assert installed.is_own(kind, name)


@pytest.mark.parametrize('kind', KINDS)
def test_other_methods_are_ironics(kind):
    assert [] == [
        name for who in (contracts.IRONIC, contracts.REFUSED)
        for name in contracts.answered_by(kind, who, installed.RELEASE)
        if installed.is_own(kind, name)]


@pytest.mark.parametrize('kind', KINDS)
def test_calls_of_ironic_fit_the_signatures(kind):
    for name, arguments in {
            **contracts.methods('base', installed.RELEASE),
            **contracts.methods(kind, installed.RELEASE)}.items():
        if arguments is None:
            continue
        theirs = inspect.signature(
            getattr(installed.base_class(kind), name))
        ours = inspect.signature(getattr(installed.OURS[kind], name))
        for parameter in theirs.parameters.values():
            _require_accepted(name, parameter, ours.parameters)
        required = {each.name for each in ours.parameters.values()
                    if each.default is each.empty
                    and each.kind is each.POSITIONAL_OR_KEYWORD}
        assert required <= {*theirs.parameters}, name
        # By position, too.
        known = [each for each in ours.parameters if each in theirs.parameters]
        assert known == [each for each in theirs.parameters if each in known]


def _require_accepted(method, parameter, ours):
    """Check that ours takes a parameter, with the same default."""
    if parameter.kind is parameter.VAR_KEYWORD:
        assert any(each.kind is each.VAR_KEYWORD for each in ours.values())
        return
    assert parameter.name in ours, method
    assert ours[parameter.name].default == parameter.default, method
