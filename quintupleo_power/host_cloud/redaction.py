# SPDX-License-Identifier: Apache-2.0
"""Keeps credentials out of texts that the host cloud has a part in.

A server's answer, or a proxy's, may repeat what it was sent.
"""

from collections import abc
import logging
import re
import typing

from keystoneauth1 import plugin

_NAMES = ('password', 'secret', 'token', 'passcode')
# A shorter one, or None, would blank out parts of ordinary words.
_SHORTEST = 5
_LONGEST_TEXT = 600
_USER_INFORMATION = re.compile(r'(?<=://)[^/\s?#]*@')
# What Nova is asked for a rebuild with, and answers it and a rescue with.
# mask_password of oslo.utils knows no user_data, and ends at an apostrophe.
_OF_REBUILDS = re.compile(
    r'("(?:adminPass|(?:OS-EXT-SRV-ATTR:)?user_data)"\s*:\s*")(?:[^"\\]|\\.)*')


def clean(text: object, auth: plugin.BaseAuthPlugin | None = None) -> str:
    """Return a text as one line of bounded length without secrets.

    Of a long one the middle is left out: what to do is said at the end.
    """
    text = ' '.join(without_secrets(str(text), auth).split())
    if len(text) > _LONGEST_TEXT:
        text = f'{text[:_LONGEST_TEXT // 2]}...{text[-_LONGEST_TEXT // 2:]}'
    return ''.join(character if character.isprintable() else '?'
                   for character in text)


def without_secrets(text: str,
                    auth: plugin.BaseAuthPlugin | None = None) -> str:
    """Return a text without secrets: a plugin's, of URLs, and of rebuilds."""
    for secret in sorted(_secrets(auth), key=len, reverse=True):
        text = text.replace(secret, '***')
    text = _OF_REBUILDS.sub(r'\1***', text)
    return _USER_INFORMATION.sub('***@', text)


class Logger(logging.LoggerAdapter):
    """A logger for requests and answers that writes no secret."""

    def __init__(self, name: str, auth: plugin.BaseAuthPlugin | None):
        """Write to the logger of a name."""
        super().__init__(logging.getLogger(name), {})
        self._auth = auth

    def process(self, msg: typing.Any, kwargs: abc.MutableMapping
                ) -> tuple[typing.Any, abc.MutableMapping]:
        """Return a message without secrets, and the keyword arguments."""
        return without_secrets(str(msg), self._auth), kwargs


def _secrets(auth, depth=4):
    """Return the secrets of an authentication plugin and of its token."""
    found = set()
    for name, value in getattr(auth, '__dict__', {}).items():
        if any(word in name for word in _NAMES):
            found |= _texts(value)
        elif depth:
            # A plugin may wrap another, or have several methods.
            for part in value if isinstance(value, list) else [value]:
                if type(part).__module__.startswith('keystoneauth1.'):
                    found |= _secrets(part, depth - 1)
    return {secret for secret in found if len(secret) >= _SHORTEST}


def _texts(value):
    """Return the texts of a value; YAML makes numbers of some passwords."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return {str(value)}
