# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
