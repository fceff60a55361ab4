# SPDX-License-Identifier: Apache-2.0
"""Stand-in for DevStack's tool that adds an entry to clouds.yaml."""

import argparse
import pathlib

import yaml


def main():
    """Add an entry to a file."""
    parser = argparse.ArgumentParser()
    for name in ('file', 'os-cloud', 'os-auth-url', 'os-username',
                 'os-password', 'os-project-name'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('--os-region-name', default='RegionOne')
    parser.add_argument('--os-cacert')
    chosen = parser.parse_args()
    path = pathlib.Path(chosen.file)
    content = yaml.safe_load(path.read_text()) if path.exists() else {}
    entry = {
        'region_name': chosen.os_region_name,
        'auth': {'auth_url': chosen.os_auth_url,
                 'username': chosen.os_username,
                 'password': chosen.os_password,
                 'user_domain_id': 'default',
                 'project_name': chosen.os_project_name,
                 'project_domain_id': 'default'}}
    if chosen.os_cacert:
        entry['cacert'] = chosen.os_cacert
    content.setdefault('clouds', {})[chosen.os_cloud] = entry
    path.write_text(yaml.safe_dump(content))


if __name__ == '__main__':
    main()
