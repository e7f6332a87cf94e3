"""How a file of a log ends, and what a server makes of it."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.errors import TruncatedError


class Tail(NamedTuple):
    """All up to *valid_end* is whole commands, the file has *end* bytes; *open_transaction* is the offset of a MULTI whose
    EXEC did not come, or -1.
    """

    valid_end: int
    end: int
    open_transaction: int

    @property
    def is_cut(self) -> bool:
        """Whether a server finds this file truncated."""
        return self.valid_end != self.end or self.open_transaction >= 0

    @property
    def loaded_end(self) -> int:
        """Up to where a server with ``aof-load-truncated yes`` loads the file; it cuts off the rest.

        Redis 7.0, which does not run an open transaction either, leaves its whole commands in the file if the cut is inside
        a command; what it appends then stands inside that transaction.
        """
        return self.open_transaction if self.open_transaction >= 0 else self.valid_end

    def reason(self) -> str:
        """What is wrong with the end, in words."""
        if self.valid_end != self.end:
            return f"the log ends inside a command: {self.end - self.loaded_end} bytes are not loaded"
        return f"the log ends inside a transaction: {self.end - self.loaded_end} bytes are not loaded"

    def error(self, source: str) -> TruncatedError:
        """The error that a reader raises who does not accept a truncated log."""
        return TruncatedError(self.reason(), offset=self.loaded_end, source=source)
