"""Counting the entries of a packed value over successive pieces of it."""

from __future__ import annotations

from cluster_core.rdb.grammar import F_LISTPACK, F_ZIPLIST, F_ZIPMAP
from tests.reference.rdb.packed import (
    listpack_entry_bytes,
    ziplist_entry_bytes,
    zipmap_entry_bytes,
)


class Walk:
    """Counts the entries of one packed value of *form* over successive pieces of it; *left* bytes follow its head."""

    def __init__(self, form: int, left: int) -> None:
        self.form = form
        self.left = left
        self.count = 0
        self._side = 0

    def go(self, data: bytes, at: int) -> int:
        """Walk from *at* and return where the next entry begins, perhaps beyond *data*; `left` is 0 after the end mark.

        Raises IndexError, with the position as its argument, where an entry's head is cut by the end of *data*,
        and ValueError for an entry that has no defined form or runs past the value's end.
        """
        stop = len(data)
        while at < stop:
            if data[at] == 255:
                if self.left != 1 or self._side:
                    raise ValueError
                self.left = 0
                return at + 1
            size = self._entry_bytes(data, at)
            if size >= self.left or size < 0:
                raise ValueError
            at += size
            self.left -= size
            if self.form == F_ZIPMAP:
                self.count += self._side
                self._side = 1 - self._side
            else:
                self.count += 1
        return at

    def _entry_bytes(self, data: bytes, at: int) -> int:
        try:
            if self.form == F_LISTPACK:
                return listpack_entry_bytes(data, at)
            if self.form == F_ZIPLIST:
                return ziplist_entry_bytes(data, at)
            return zipmap_entry_bytes(data, at, self._side)
        except IndexError:
            if len(data) - at >= self.left:
                raise ValueError from None
            raise IndexError(at) from None
