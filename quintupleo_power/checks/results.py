# SPDX-License-Identifier: Apache-2.0
"""A check, and what it comes to."""

from collections import abc
import dataclasses
from typing import Any

PASS, WARN, FAIL, SKIPPED = 'pass', 'warn', 'fail', 'skipped'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a check comes to.

    :ivar result: PASS, WARN, FAIL or SKIPPED.
    :ivar found: what there is.
    :ivar advice: what to do; empty if there is nothing to do.
    """

    result: str
    found: str
    advice: str = ''


def passed(found: str) -> Verdict:
    """Return that something is as it should be."""
    return Verdict(PASS, found)


def warned(found: str, advice: str) -> Verdict:
    """Return that something may be in the way."""
    return Verdict(WARN, found, advice)


def failed(found: str, advice: str) -> Verdict:
    """Return that something is in the way."""
    return Verdict(FAIL, found, advice)


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing to check.

    :ivar name: its name, which the checks that need it use.
    :ivar read: function that reads it; it gets what the checks before have
        read, by their names.
    :ivar judge: function from what was read to a verdict.
    :ivar needs: names of the checks without which it makes no sense.
    """

    name: str
    read: abc.Callable[[dict], Any]
    judge: abc.Callable[[Any], Verdict]
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
    """The verdict of the check of a name."""

    check: str
    verdict: Verdict
