"""What a user did wrong, as opposed to what a file holds (`cluster_core.errors.DecodeError`) and to what we
did wrong, or what another job did first.
"""

from __future__ import annotations


class InputError(Exception):
    """A job cannot do what it was asked: a file is missing, a glob matches nothing, a setting is unknown,
    Java is too old.

    The message is the one line that the user reads, and says what to do.  It may be raised on an executor:
    only the text travels, see `slotscope.runtime.failure`.
    """


class PlaceError(InputError):
    """A place cannot be read or written now: its disk is full, or its store does not answer, refuses or fails."""


class TryAgainError(Exception):
    """Another job wrote the same at the same time and was first: the same command, run again, finds its place.

    The message is the one line that the user reads.
    """
