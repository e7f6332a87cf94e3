"""What shows something of one sentinel: packets on its connections, its own words, its log, its answers.

Times are ns since the epoch.  *observer* is not part of it: evidence is kept by sentinel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster_core.kinds import Source
from cluster_core.sentinel.instance import Address

COMMAND, PUBSUB = "cmd", "pubsub"
"""The two connections of a link, as sentinels name them: ``CLIENT SETNAME sentinel-<id>-cmd``."""
WHOLE: Final = "whole"
"""Of a connection that was open before the capture began: its link is taken for whole."""
CAPTURE, LOG, POLL = Source.CAPTURE, Source.LOG, Source.POLL
NOTHING: Final = ("", Source.NONE)
"""What a piece of evidence that changes no belief gives: no cause, no source."""


class Linked(NamedTuple):
    """The sentinel began a connection to *target*."""

    ts_ns: int
    connection: int
    target: Address
    purpose: str


class Unlinked(NamedTuple):
    """A connection of the sentinel ended; *is_own* when the sentinel closed it."""

    ts_ns: int
    connection: int
    is_own: bool


class Sent(NamedTuple):
    """The sentinel sent a command on one of its connections."""

    ts_ns: int
    connection: int
    target: Address
    words: tuple[bytes, ...]


class Answered(NamedTuple):
    """What *target* answered to *request*: *kind* as in `cluster_core.wire.resp`."""

    ts_ns: int
    connection: int
    target: Address
    request: tuple[bytes, ...]
    kind: str
    words: tuple[bytes, ...]


class Heard(NamedTuple):
    """A hello message reached the sentinel, by a subscription or directly."""

    ts_ns: int
    text: str


class Asked(NamedTuple):
    """Somebody sent the sentinel a SENTINEL command; *kind* and *words* are what it answered."""

    ts_ns: int
    request: tuple[bytes, ...]
    kind: str
    words: tuple[bytes, ...]


class Told(NamedTuple):
    """The sentinel announced an event on its channel or wrote it to its log."""

    ts_ns: int
    channel: str
    text: str
    source: Source = CAPTURE


class Listened(NamedTuple):
    """Somebody subscribed to *patterns* of the sentinel's events (or, with *on* False, is gone)."""

    ts_ns: int
    connection: int
    patterns: tuple[str, ...]
    on: bool


class Assumed(NamedTuple):
    """The link to who is at *address* is whole or not, as far as logs let conclude."""

    ts_ns: int
    address: Address
    is_linked: bool


class Opined(NamedTuple):
    """What another sentinel answered of *master*, as far as logs let conclude; *leader* is empty without a vote."""

    ts_ns: int
    sentinel: str
    master: str
    says_down: bool
    leader: str
    leader_epoch: int


class Stopped(NamedTuple):
    """The process of the sentinel ended."""

    ts_ns: int


class Started(NamedTuple):
    """A process of the sentinel began; *version* is that of Valkey as its log says, (0, 0) of Redis, empty if unknown."""

    ts_ns: int
    version: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Polled:
    """What the sentinel answered about *master* to SENTINEL MASTERS, REPLICAS and SENTINELS, asked at *asked_ns*.

    Each record is the fields of one instance by name; *replicas* and *sentinels* are None where they were not asked.
    """

    ts_ns: int
    asked_ns: int
    masters: tuple[dict[str, str], ...]
    master: str
    replicas: tuple[dict[str, str], ...] | None
    sentinels: tuple[dict[str, str], ...] | None


Evidence = (
    Linked | Unlinked | Sent | Answered | Heard | Asked | Told | Listened | Assumed | Opined | Stopped | Started | Polled
)  # fmt: skip
