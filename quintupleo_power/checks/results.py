# SPDX-License-Identifier: Apache-2.0
"""A check, and what it comes to."""

from collections import abc
import dataclasses
import functools
from typing import Any

PASS, WARN, FAIL, SKIPPED = 'pass', 'warn', 'fail', 'skipped'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a check comes to: a result, what there is and what to do."""

    result: str
    found: str
    advice: str = ''


# As it should be; perhaps in the way; in the way.
passed = functools.partial(Verdict, PASS)
warned = functools.partial(Verdict, WARN)
failed = functools.partial(Verdict, FAIL)
skipped = functools.partial(Verdict, SKIPPED)


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing to check.

    :ivar read: function that reads it; it gets what the checks before have
        read, by their names.
    :ivar judge: function from what was read to a verdict; not needed where
        what is read is one.
    :ivar needs: names of the checks without which it makes no sense.
    """

    name: str
    read: abc.Callable[[dict], Any]
    judge: abc.Callable[[Any], Verdict] = lambda verdict: verdict
    needs: tuple[str, ...] = ()
