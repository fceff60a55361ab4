# SPDX-License-Identifier: Apache-2.0
"""The releases of Ironic and what each is run with."""

import dataclasses
import platform
import subprocess
import types

import pytest
import yaml

from onebox import ironic
from onebox.minicloud import nova
from onebox import releases
from onebox import reports
from onebox import system
from onebox import testing
from tests.unit.contract import contracts


@pytest.mark.parametrize(
    'release', [*releases.RELEASES, releases.NEWEST_NOVA],
    ids=lambda release: release.constraints.stem)
def test_constraints_are_of_the_release(release):
    pinned = _pinned(release)
    assert pinned[release.package].startswith(f'{release.name}.')
    assert len(pinned) > 100


def test_lower_bounds_are_what_the_oldest_release_is_tested_with():
    pinned = _pinned(releases.OLDEST)
    bounds = {name.lower().replace('.', '-'): version
              for name, version in releases.lower_bounds().items()}
    assert 'openstacksdk' in bounds
    assert bounds == {name: pinned.get(name) for name in bounds}


def _pinned(release):
    return dict(line.split('==') for line
                in release.constraints.read_text().splitlines()
                if not line.startswith('#'))


def test_contract_of_ironic_is_compared_with_each_release():
    assert contracts.RELEASES == tuple(
        release.name for release in releases.RELEASES)


def test_unknown_release_is_named():
    with pytest.raises(system.Error, match='no release ironic-1,.*ironic-39'):
        releases.by_file('ironic-1')


def test_all_tiers_are_run_with_the_newest_and_the_oldest(monkeypatch):
    monkeypatch.setattr(releases.sys, 'version_info', types.SimpleNamespace(
        minor=releases.OLDEST.last_python))
    choice = testing._choose(['--full'])
    assert set(choice.tiers) == {*testing.TIERS, *testing.ON_REQUEST}
    parts = [testing._choose(part) for part in nightly_parts()]
    assert sorted(tier for part in parts for tier in part.tiers) == sorted(
        choice.tiers)
    for part in parts:
        assert part == dataclasses.replace(choice, tiers=part.tiers)
    assert choice.releases == [releases.NEWEST, releases.OLDEST]
    assert choice.default_only == [releases.OLDEST]
    assert choice.nova == nova.OWN


def nightly_parts():
    """Return the arguments of this program in the jobs of each night."""
    workflow = yaml.safe_load(
        (ironic.REPOSITORY / '.github/workflows/nightly.yaml').read_text())
    return [part.split() for part
            in workflow['jobs']['full']['strategy']['matrix']['part']]


def test_oldest_is_left_out_where_its_libraries_do_not_run(monkeypatch):
    monkeypatch.setattr(releases.sys, 'version_info', types.SimpleNamespace(
        minor=releases.OLDEST.last_python + 1))
    assert testing._choose(['--full']).releases == [releases.NEWEST]
    releases.NEWEST.require_python()
    with pytest.raises(system.Error, match='24.1 .* 3.12 at most, .* 3.13'):
        releases.OLDEST.require_python()


def test_a_tier_by_name_is_run_with_the_newest():
    choice = testing._choose(['unit'])
    assert (choice.tiers, choice.releases) == (['unit'], [releases.NEWEST])


@pytest.mark.parametrize('words, names', [
    (['--ironic', '24.1'], ['24.1']),
    (['--ironic', '39', '--ironic', '29'], ['29', '39']),
    (['--ironic', 'all'], ['24.1', '26.1', '29', '32', '35', '38', '39'])])
def test_releases_by_name_are_run_in_full(words, names):
    choice = testing._choose(words)
    assert choice.tiers == testing.WITH_RELEASES
    assert [release.name for release in choice.releases] == names
    assert not choice.default_only


@pytest.mark.parametrize('words', [
    ['--ironic', '24.1', 'e2e'], ['--ironic', '1'], ['nothing'],
    ['--nova', '26'], ['--nova', '26', 'unit'], ['--nova', '1', 'functional']])
def test_what_cannot_be_run_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        testing._choose(words)
    assert 'run-tests: error:' in capsys.readouterr().err


def test_report_is_counted_as_pytest_does(tmp_path):
    report = tmp_path / 'report.xml'
    # Two subtests failed in one test.
    report.write_text('''
        <testsuites><testsuite tests="7" failures="2" errors="1" skipped="1"
            time="1.5">
        <testcase/><testcase><failure/><failure/></testcase>
        <testcase><error/></testcase><testcase><skipped/></testcase>
        </testsuite></testsuites>''')
    outcome = reports.Outcome.read('unit', releases.OLDEST, '', report)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 2, 1)
    assert reports.table([outcome])[1].split() == [
        'unit', '24.1', '1', '2', '1', '1.5', 's']


def test_packages_that_debians_nova_needs(monkeypatch):
    depends = {'python3-nova': '''\
python3-nova
 |Depends: python3-one
  Depends: python3-other
  Depends: libc6
  Depends: <python3-virtual>
    python3-provider
''', 'python3-one': 'python3-one\n  Depends: python3-nova\n',
               'python3-provider': 'python3-provider\n'}

    def run(argv, **kwargs):
        names = [word for word in argv if word.startswith('python3-')]
        return subprocess.CompletedProcess(
            argv, 0, ''.join(depends[name] for name in names), '')

    monkeypatch.setattr(system, 'run', run)
    assert nova._closure(['python3-nova']) == [
        'python3-nova', 'python3-one', 'python3-provider']


def test_application_of_an_old_nova():
    assert nova.application('26').endswith('wsgi:init_application()')
    assert nova.application('32') == 'nova.wsgi.osapi_compute'


@pytest.mark.parametrize('system_release, release', [
    ({'ID': 'debian', 'VERSION_ID': '12'}, '26'),
    ({'ID': 'debian', 'VERSION_ID': '13'}, '31'),
    # Testing has no version.
    ({'ID': 'debian'}, None),
    ({'ID': 'ubuntu', 'VERSION_ID': '24.04'}, None)])
def test_nova_of_debians_packages_is_that_of_its_release(
        monkeypatch, system_release, release):
    monkeypatch.setattr(platform, 'freedesktop_os_release',
                        lambda: system_release)
    assert nova.packaged() == release


def test_no_nova_of_packages_where_the_system_is_unknown(monkeypatch):
    def unknown():
        raise FileNotFoundError

    monkeypatch.setattr(platform, 'freedesktop_os_release', unknown)
    assert nova.packaged() is None
