"""The work that the searches of one plan may do together."""

from __future__ import annotations

from collections.abc import Callable


def never() -> bool:
    """Return that there is time."""
    return False


class Account:
    """Work that is left, in about nanoseconds of one core: steps, of any search, at what one is known to take, so that a slow machine does as many as a fast one.

    *stop* says when time is up.
    """

    def __init__(self, left: float = float("inf"), stop: Callable[[], bool] = never, of: Account | None = None) -> None:
        self.left, self._stop, self._of = left, stop, of
        self._whole = left

    def part(self, share: float, reserve: float = 0.0) -> Account:
        """Return an account of this *share* of the whole one, or of what is left but for the share in *reserve*; what is spent of it is spent of this, too."""
        if self._whole == float("inf"):
            return Account(stop=self._stop, of=self)
        return Account(max(0.0, min(share * self._whole, self.left - reserve * self._whole)), self._stop, self)

    def spend(self, work: float) -> None:
        """Take *work* that was done off what is left."""
        self.left -= work
        if self._of is not None:
            self._of.spend(work)

    def is_over(self) -> bool:
        """Return whether nothing is left, or time is up."""
        return self.left <= 0 or self._stop()

    def affords(self, count: int, work: float) -> int:
        """Return how many of *count* steps of so much *work* each there is enough left for."""
        return count if self.left >= count * work else max(0, int(self.left / work))
