# SPDX-License-Identifier: Apache-2.0
"""When to look at a server whose action is under way."""

import collections
import dataclasses
import enum
import threading


@dataclasses.dataclass(frozen=True)
class Closeness:
    """How closely an action is looked at, as shares of its usual time.

    :ivar before: the first look.
    :ivar behind: the pauses after it while the end is likely.
    :ivar likely: until when it is.
    :ivar sooner: what is left of the time of an action that the first look
        finds over.
    """

    before: float
    behind: float
    likely: float
    sooner: float


class Place(enum.Enum):
    """Which of the actions of a request one is, and how closely it is watched.

    Of several in a row each is looked at first when it is likely to be over,
    so that they cost together what one alone may cost.
    """

    ALONE = Closeness(0.88, 0.05, 1.2, 0.97)
    FOLLOWED = Closeness(1.03, 0.08, 1.3, 0.98)
    LAST = Closeness(1.05, 0.08, 1.4, 0.98)


class Pace:
    """When to look at a server whose action is under way.

    The first look comes before the time that the action took of late, the next
    ones close behind it while the end is likely, then ever further apart: a
    few requests, and little lost between the end and its being seen.

    An action ended half-way between the last look that found it under way and
    the one after it, for all that is known; sooner if they are far apart, for
    a look too early costs less than one too late. If the first look finds it
    over, nobody knows how long before: what took longer counts no more, and
    the next first look comes sooner, and ever sooner while that goes on. So
    when the host cloud gets quicker, this does.

    What an action takes is remembered by its place, as it takes another time
    when the machine has just been started by the one before.
    """

    REMEMBERED = 5
    FIRST = 0.4
    SHORTEST = 0.03
    FURTHER = 1.5
    UNCERTAIN = 0.1

    def __init__(self, longest):
        """Start without a history.

        :param longest: seconds between two looks at the most.
        """
        self._longest = longest
        self._lock = threading.Lock()
        self._seen = collections.defaultdict(
            lambda: collections.deque(maxlen=self.REMEMBERED))
        self._at_once = collections.Counter()

    def record(self, action, seconds, at_once, place=Place.ALONE,
               under_way=None):
        """Remember how long an action took.

        :param action: the word for it.
        :param seconds: from Nova's answer to the look that saw the end.
        :param at_once: whether that was the first look.
        :param place: its :class:`Place`.
        :param under_way: seconds to the last look before that, None if there
            was none.
        """
        if under_way is not None:
            seconds = under_way + min(seconds - under_way,
                                      under_way * self.UNCERTAIN) / 2
        key = action, place
        with self._lock:
            seen = self._seen[key]
            if at_once:
                self._at_once[key] += 1
                seconds *= (place.value.sooner ** self._at_once[key]
                            / max(place.value.before, 1))
                for index, earlier in enumerate(seen):
                    seen[index] = min(earlier, seconds)
            else:
                self._at_once[key] = 0
            seen.append(seconds)

    def waits(self, action, place=Place.ALONE):
        """Yield the seconds to wait before each look, without end.

        :param action: the word for what is waited for.
        :param place: its :class:`Place`.
        :returns: a generator of seconds.
        """
        closeness = place.value
        with self._lock:
            seen = sorted(next(filter(None, (
                self._seen[action, other] for other in (place, *Place))), ()))
        if seen:
            usual = seen[len(seen) // 2]
            wait = min(max(usual * closeness.before, self.SHORTEST),
                       self._longest * 2)
            waited = wait
            yield wait
            wait = min(max(usual * closeness.behind, self.SHORTEST),
                       self._longest)
            while waited < usual * closeness.likely:
                waited += wait
                yield wait
        else:
            wait = self.FIRST
            yield wait
        while True:
            wait = min(wait * self.FURTHER, self._longest)
            yield wait
