"""Errors of users and of concurrent jobs; damaged files raise `cluster_core.errors.DecodeError`."""

from __future__ import annotations


class InputError(Exception):
    """A job cannot run as requested: a file is missing, a glob matches nothing, a setting is unknown,
    Java is too old.

    The message is the only line that the user reads, and says how to fix it.  It may be raised on an executor:
    only the text travels, see `slotscope.runtime.failure`.
    """


class PlaceError(InputError):
    """A place cannot be read or written now: its disk is full, or its store does not answer, refuses or fails."""


class TryAgainError(Exception):
    """Another job wrote the same at the same time and was first: the same command, run again, finds its place.

    The message is the one line that the user reads.
    """
