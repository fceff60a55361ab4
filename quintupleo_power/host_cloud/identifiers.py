# SPDX-License-Identifier: Apache-2.0
"""One spelling of the UUIDs and addresses of nodes and of answers."""

import ipaddress
import uuid

from oslo_utils import uuidutils


def reference(text: str) -> str:
    """Return a UUID in its usual form, or a name as it is."""
    return str(uuid.UUID(text)) if uuidutils.is_uuid_like(text) else text


def mac(text: str) -> str:
    """Return a MAC address in lower case, with colons."""
    return text.lower().replace('-', ':')


def address(text: str) -> str:
    """Return an IP address in its usual form, without a length of a prefix.

    Another text is returned as it is.
    """
    try:
        return str(ipaddress.ip_interface(text).ip)
    except ValueError:
        return text
