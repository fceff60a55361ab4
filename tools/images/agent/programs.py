# SPDX-License-Identifier: Apache-2.0

"""Print the programs that ironic-python-agent runs and this system lacks.

Run by the ramdisk's own Python, with the agent's folder as argument.
"""

import ast
import pathlib
import shutil
import sys

RUN = ('execute', 'try_execute', 'check_call')
# Variables that hold a command before it is run.
COMMANDS = ('args', 'cmd', 'command', 'commands', 'pull_command')


def programs(folder):
    """Return the names of the programs that the agent's code runs.

    :param folder: path of the package ironic_python_agent.
    """
    found = set()
    for path in pathlib.Path(folder).rglob('*.py'):
        if 'tests' not in path.relative_to(folder).parts:
            for node in ast.walk(ast.parse(path.read_text())):
                found.update(_programs(node))
    return found


def _programs(node):
    """Yield what one statement or expression runs."""
    if isinstance(node, ast.Call) and node.args:
        function = node.func
        name = getattr(function, 'attr', getattr(function, 'id', None))
        if name in RUN:
            yield from _first_words(node.args[0])
    elif isinstance(node, ast.Assign):
        if getattr(node.targets[0], 'id', None) in COMMANDS:
            yield from _first_words(node.value)


def _first_words(node):
    """Yield the program of a command: a string, a list, a dict of lists."""
    words = []
    if isinstance(node, ast.Dict):
        for value in node.values:
            yield from _first_words(value)
    elif isinstance(node, (ast.List, ast.Tuple)):
        words = [item.value for item in node.elts
                 if isinstance(item, ast.Constant)]
    else:
        # The text of "mount %s" % path and of "mount {}".format(path).
        node = getattr(getattr(node, 'func', None), 'value', node)
        text = getattr(getattr(node, 'left', node), 'value', None)
        words = text.split() if isinstance(text, str) else []
    # "env" and what it sets come before the program.
    words = [word for word in words if isinstance(word, str)
             and word != 'env' and '=' not in word]
    if words and not words[0].startswith('-'):
        yield words[0].rsplit('/')[-1]


if __name__ == '__main__':
    print(*sorted(name for name in programs(sys.argv[1])
                  if not shutil.which(name)), sep='\n')
