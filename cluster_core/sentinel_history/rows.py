"""Values that a history of sentinels is made of, beside the spans of `beliefs`."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.kinds import Source


class EventRow(NamedTuple):
    """An event of a sentinel; *source* is ``capture`` (a subscriber got it), ``log``, or ``rule`` (it follows)."""

    ts_ns: int
    observer: str
    channel: str
    text: str
    source: Source


class VoteRow(NamedTuple):
    """A sentinel was asked for its vote: by whom, when, for which epoch; *granted_to* and *granted_epoch* are its vote."""

    ts_ns: int
    voter: str
    candidate: str
    master: str
    epoch: int
    granted_to: str
    granted_epoch: int
    says_down: bool | None
    source: Source

    @property
    def is_granted(self) -> bool:
        """Whether who asked has the vote."""
        return self.granted_to == self.candidate and self.granted_epoch == self.epoch


class OpinionRow(NamedTuple):
    """A sentinel heard from another one, *sentinel*, that it now holds *master* for down, or no longer."""

    ts_ns: int
    observer: str
    sentinel: str
    master: str
    says_down: bool


class SignRow(NamedTuple):
    """A sentinel took *address* for down: when it last answered (None where that is not known)."""

    ts_ns: int
    observer: str
    address: str
    last_ns: int | None


class ChoiceRow(NamedTuple):
    """A sentinel chose the replica *chosen* (empty: none could be): *why* in words, and what spoke against the others."""

    ts_ns: int
    observer: str
    master: str
    chosen: str
    why: str
    against: tuple[str, ...]
