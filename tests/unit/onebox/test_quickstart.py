# SPDX-License-Identifier: Apache-2.0
"""quickstart: what it is told, and another agent in the ramdisk."""

import gzip
import subprocess

import pytest

from onebox import images
from onebox import quickstart


@pytest.mark.parametrize('words, sentence', [
    (['--ironic', '{folder}'], 'there is no folder ironic with a Python'),
    (['--agent', '{folder}/none'], 'there is no folder ironic_python_agent'),
    (['--ironic', '{checkout}', '--ironic-version', '35.0'],
     'not allowed with argument --ironic')])
def test_wrong_words(tmp_path, capsys, words, sentence):
    checkout = tmp_path / 'checkout'
    (checkout / 'ironic').mkdir(parents=True)
    (checkout / 'ironic' / '__init__.py').touch()
    with pytest.raises(SystemExit):
        quickstart.main([word.format(folder=tmp_path, checkout=checkout)
                         for word in words])
    assert sentence in capsys.readouterr().err


def test_agent_of_a_checkout_is_in_the_ramdisk(tmp_path):
    built = images.Images(tmp_path, tmp_path)
    built.folder.mkdir()
    # Of an odd length, which what follows must not begin at.
    first = gzip.compress(b'what was built')[:-1]
    built.agent_ramdisk.write_bytes(first)
    package = tmp_path / 'checkout' / 'ironic_python_agent'
    (package / 'tests').mkdir(parents=True)
    (package / '__init__.py').write_text('changed = True\n')
    (package / 'tests' / 'test_x.py').touch()
    target = tmp_path / 'ramdisk'
    built.write_ramdisk(tmp_path / 'checkout', target)
    content = target.read_bytes()
    assert content.startswith(first)
    begin = content.index(b'070701')
    assert begin % 4 == 0 and not content[len(first):begin].strip(b'\0')
    out = tmp_path / 'out'
    out.mkdir()
    subprocess.run(['cpio', '--quiet', '--extract', '--make-directories'],
                   input=content[begin:], cwd=out, check=True)
    folder = out / images.AGENT_FOLDER[1:]
    assert [str(path.relative_to(folder)) for path in folder.rglob('*.py')
            ] == ['ironic_python_agent/__init__.py']
    assert images.AGENT_FOLDER in (
        out / images.AGENT_SETTING[1:]).read_text()
    assert built.agent_ramdisk.read_bytes() == first
