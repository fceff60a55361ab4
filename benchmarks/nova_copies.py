# SPDX-License-Identifier: Apache-2.0
"""Copies of servers, as rows of Nova's database.

Nova builds a server a second, and ever slower the more its host has. What the
API tells of a copy it tells of the rows of a server that was built.
"""

import uuid

from onebox.minicloud import database

# The host of all copies: no service, so that none looks after them.
HOST = 'copies'
# Each table that is told of a server, with the column that names it.
_TABLES = (
    ('nova', 'instances', 'uuid'),
    ('nova', 'instance_extra', 'instance_uuid'),
    ('nova', 'instance_info_caches', 'instance_uuid'),
    ('nova', 'instance_system_metadata', 'instance_uuid'),
    ('nova', 'block_device_mapping', 'instance_uuid'),
    ('nova_api', 'instance_mappings', 'instance_uuid'),
    ('nova_api', 'request_specs', 'instance_uuid'),
)
# What a copy has of its own beside the column that names it.
_OWN = {('instances', 'host'): f"'{HOST}'", ('instances', 'node'): f"'{HOST}'",
        # Most servers of a large project have not just been built: lists of
        # what has changed leave them out.
        ('instances', 'updated_at'): 'original.updated_at - INTERVAL 1 HOUR',
        ('block_device_mapping', 'uuid'): 'UUID()'}


def make(cloud, originals, number):
    """Copy servers.

    :param cloud: minicloud's settings.
    :param originals: UUIDs of servers that were built.
    :param number: how many copies to make.
    :returns: UUIDs of the copies.
    """
    made = [str(uuid.uuid4()) for _ in range(number)]
    pairs = ',\n'.join(
        f"('{originals[index % len(originals)]}', '{copy}')"
        for index, copy in enumerate(made))
    database.sql(cloud, '\n'.join([
        'USE nova;',
        'CREATE TEMPORARY TABLE copies (old CHAR(36), new CHAR(36), '
        'KEY (old));',
        f'INSERT INTO copies VALUES {pairs};',
        *(_copy(cloud, *table) for table in _TABLES)]))
    return made


def _copy(cloud, schema, table, key):
    columns = [column for column in _columns(cloud, schema, table)
               if column != 'id']
    values = ['copies.new' if column == key
              else _OWN.get((table, column), f'original.`{column}`')
              for column in columns]
    names = ', '.join(f'`{column}`' for column in columns)
    return (f'INSERT INTO {schema}.{table} ({names}) '
            f'SELECT {", ".join(values)} FROM {schema}.{table} AS original '
            f'JOIN nova.copies ON original.{key} = copies.old;')


def _columns(cloud, schema, table):
    return database.sql(
        cloud, 'SELECT column_name FROM information_schema.columns WHERE '
        f"table_schema = '{schema}' AND table_name = '{table}' AND "
        "extra NOT LIKE '%GENERATED%';").split()[1:]


def remove(cloud):
    """Remove all copies.

    :param cloud: minicloud's settings.
    """
    database.sql(cloud, 'USE nova;\n' + '\n'.join(
        f'DELETE copy FROM {schema}.{table} AS copy JOIN nova.instances AS '
        f"one ON copy.{key} = one.uuid WHERE one.host = '{HOST}';"
        for schema, table, key in reversed(_TABLES)))
