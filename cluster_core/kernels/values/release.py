"""The server that commands are written for: what its release can hold."""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster_core.errors import ConditionError

_NAME = re.compile(r"(redis|valkey)-(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?\Z")
_FIRST = {"redis": (5, 0), "valkey": (7, 2)}


class Release(NamedTuple):
    """A family of servers and a release of it; make one with `release_of`."""

    family: str
    number: tuple[int, int]

    @property
    def name(self) -> str:
        """As it is asked for."""
        return f"{self.family}-{self.number[0]}.{self.number[1]}"

    @property
    def has_field_expiry(self) -> bool:
        """Whether fields of a hash can expire (HPEXPIREAT)."""
        return self.number >= ((7, 4) if self.family == "redis" else (9, 0))

    @property
    def has_empty_consumers(self) -> bool:
        """Whether a consumer can be made that owns nothing (XGROUP CREATECONSUMER)."""
        return self.number >= (6, 2)

    @property
    def has_stream_counts(self) -> bool:
        """Whether a stream's added entries and largest deleted id, and a group's read entries, can be set."""
        return self.number >= (7, 0)

    @property
    def has_functions(self) -> bool:
        """Whether it has function libraries (FUNCTION LOAD)."""
        return self.number >= (7, 0)


NEWEST = Release("redis", (255, 255))
"""A server that holds whatever commands can make."""


def release_of(name: str) -> Release:
    """Return the release that ``redis-7.0`` or ``valkey-9.0`` names; raises ConditionError for one that is not known."""
    found = _NAME.match(name)
    if found is None:
        raise ConditionError(f"{name!r} is no release: redis-7.0 or valkey-9.0 is", 0)
    family, number = found[1], (int(found[2]), int(found[3]))
    if number < _FIRST[family]:
        first = ".".join(map(str, _FIRST[family]))
        raise ConditionError(f"commands are written for {family} {first} and later", found.start(2))
    return Release(family, number)
