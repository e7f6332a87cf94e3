"""What an RDB file says about itself besides its keys, gathered alike by the plain skim and by its compiled twin."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.head import RdbHead
from cluster_core.formats.rdb.limits import AUX_FIELDS_MAX


class SplitError(DecodeError):
    """A range of a file that cannot be read apart from the rest: read the whole file."""


class DeclaredCounts(NamedTuple):
    """Keys of a database, and those of them that expire, as RESIZEDB announces them."""

    keys: int
    expires: int


class FileFacts:
    """Head, aux fields and database sizes of one file or range of a file, behind which database *db_after* goes on where that is known."""

    def __init__(
        self, head: RdbHead | None, *, source: str, start: int, end: int | None, db_after: int | None = None
    ) -> None:
        self.head = head
        self.aux: dict[str, str] = {}
        self.databases: dict[int, DeclaredCounts] = {}
        self.db = head.db if head else 0
        self._source = source
        self._start = start
        self._end = end
        self._db_after = db_after
        self._selected = start > 0

    def add_aux(self, name: bytes, value: bytes) -> bool:
        """Keep one aux field, up to `AUX_FIELDS_MAX`; return whether it says more about the writer."""
        label = _text(name)
        if label in self.aux or len(self.aux) < AUX_FIELDS_MAX:
            self.aux[label] = _text(value)
        if label == "redis-bits" and self.head is not None:
            self.head = self.head._replace(bits=32 if value == b"32" else 64)
            return True
        if label not in ("valkey-ver", "redis-ver") or self.head is None:
            return False
        if label == "redis-ver" and self.head.server.startswith("valkey"):
            return False
        self.head = self.head._replace(server=f"{label.removesuffix('-ver')} {self.aux.get(label, '')}")
        return True

    def select(self, db: int, offset: int) -> None:
        """Note that database *db* follows; raises SplitError where a range may not go on to another one."""
        if self._end is not None and self._db_after is None and db != self.db and self._selected:
            raise SplitError(
                f"database {db} begins in a range that is not the last", offset=offset, source=self._source
            )
        if not self._selected and self.head is not None:
            self.head = self.head._replace(db=db)
        self.db = db
        self._selected = True

    def check_end(self) -> None:
        """Raise SplitError where the range does not end in the database that goes on behind it."""
        if self._db_after is not None and self.db != self._db_after:
            reason = f"the range ends in database {self.db}, not in database {self._db_after}"
            raise SplitError(reason, offset=self._end or 0, source=self._source)

    def resize(self, keys: int, expires: int) -> None:
        """Note the announced size of the database at hand; several announcements add up."""
        before = self.databases.get(self.db, DeclaredCounts(0, 0))
        self.databases[self.db] = DeclaredCounts(before.keys + keys, before.expires + expires)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
