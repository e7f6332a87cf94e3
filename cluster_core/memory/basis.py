"""What a snapshot's figures of memory rest on, in the words that must stand beside them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Exactness(StrEnum):
    """How exact the figures are."""

    MODEL = "model"
    """Every key is measured by the model of the server that wrote it."""
    NAMED = "named"
    """By the model that the user named."""
    NEAREST = "nearest"
    """Some server has no model: its keys are measured by that of the nearest version, and the error is not known."""
    PARTIAL = "partial"
    """Some keys are in no figure."""


class MemoryBasis(NamedTuple):
    """The models' names (``redis 7.0, jemalloc-16``), how exact the figures are, and keys that are in none of them."""

    model: str
    exactness: Exactness
    unmeasured_keys: int

    @property
    def caveat(self) -> str:
        """What must stand behind a figure of memory; empty where the writers' own models gave it."""
        if self.exactness == Exactness.PARTIAL:
            return f"without {self.unmeasured_keys:,} key{'' if self.unmeasured_keys == 1 else 's'} that no model knows"
        if self.exactness == Exactness.NEAREST:
            return f"by the nearest model, {self.model}; error not known"
        return f"as {self.model} would hold it" if self.exactness == Exactness.NAMED else ""
