"""Which RDB file is to be written: dialect, version, and what that version can hold (`rdb.h`, by server release)."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.errors import EncodeError
from cluster_core.formats.rdb.grammar import DIALECT_REDIS, DIALECT_VALKEY, KEY_TYPES, ValueType, written_type
from cluster_core.formats.rdb.head import RdbHead

WRITTEN_VERSIONS = {DIALECT_REDIS: (9, 10, 11, 12), DIALECT_VALKEY: (80,)}
"""9: Redis 5.0 to 6.2.  10: Redis 7.0.  11: Redis 7.2, Valkey 7.2 and 8.  12: Redis 7.4 and 8.0.  80: Valkey 9."""


class Target(NamedTuple):
    """Dialect and version of a file to be written; make one with `target_of`."""

    dialect: str
    version: int

    @property
    def magic(self) -> bytes:
        """The first nine bytes."""
        return self.dialect.encode() + b"%0*d" % (9 - len(self.dialect), self.version)

    @property
    def has_listpacks(self) -> bool:
        """Whether packed values are listpacks, not ziplists; functions came with the same version."""
        return self.version >= 10

    @property
    def has_set_listpacks(self) -> bool:
        """Whether a set may be a listpack; active times of consumers came with the same version."""
        return self.version >= 11

    def holds(self, key_type: int, layout: int, **like: int) -> bool:
        """Whether the version has a value type of that kind that is written here."""
        return written_type(self.dialect, self.version, key_type, layout, **like) is not None

    def type_of(self, key_type: int, layout: int, **like: int) -> tuple[int, ValueType]:
        """Return (number, row) of the newest value type of that kind that the version holds and that is written here (`written_type`).

        Raises EncodeError if it holds none.
        """
        found = written_type(self.dialect, self.version, key_type, layout, **like)
        if found is None:
            raise EncodeError(f"version {self.version} does not hold such a {KEY_TYPES[key_type]}")
        return found

    @property
    def slot_info_is_opcode(self) -> bool:
        """Whether slot info is an opcode (Redis); before, and in Valkey, it is an aux field that may be ignored."""
        return self.dialect == DIALECT_REDIS and self.version >= 12


def target_of(dialect: str, version: int) -> Target:
    """Return the target of that dialect and version; EncodeError for one that is not written here."""
    if version not in WRITTEN_VERSIONS.get(dialect, ()):
        known = ", ".join(f"{name} {number}" for name, numbers in WRITTEN_VERSIONS.items() for number in numbers)
        raise EncodeError(f"RDB version {dialect} {version} is not written; there are {known}")
    return Target(dialect, version)


def target_like(head: RdbHead) -> Target:
    """Return the target of a copy of the file that *head* begins: any version, since values go through as they are."""
    return Target(head.dialect, head.version)
