# SPDX-License-Identifier: Apache-2.0
"""The options of an INI file, for the stand-in's iniset and iniget."""

import configparser
import pathlib
import sys


def main(verb, path, section, option, value=None):
    """Set, print or remove an option.

    :param verb: 'set', 'get' or 'remove'.
    """
    parser = configparser.RawConfigParser(
        strict=False, interpolation=None, default_section='')
    parser.optionxform = str
    path = pathlib.Path(path)
    parser.read(path)
    if verb == 'get':
        print(parser.get(section, option, fallback=''))
        return
    if verb == 'set':
        if not parser.has_section(section):
            parser.add_section(section)
        parser.set(section, option, value)
    else:
        parser.remove_option(section, option)
    with open(path, 'w') as target:
        parser.write(target)


if __name__ == '__main__':
    main(*sys.argv[1:])
