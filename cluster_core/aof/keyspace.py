"""The key space that a log leaves: a base of keys, then commands one by one (`loadAppendOnlyFiles`).

Feed `Keyspace` the records of a dump with `add_record` and commands with `apply`; ask `rows` what lives.  It follows what
TYPE, the length of the value and PEXPIRETIME answer, exactly or not at all: a command that it does not know, or whose effect
the log does not tell, is counted by name, and the keys that it names are uncertain from then on (`Store`).

Between MULTI and EXEC commands wait, as in a server; a transaction that never ends is never run.  Keys whose time has passed
stay until the log removes them: servers write a DEL for each, and load the rest as it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from cluster_core.aof import collections, keys, sorted_sets, streams, strings
from cluster_core.aof.command_keys import written_keys
from cluster_core.aof.live_bytes import live_bytes
from cluster_core.aof.store import UNCERTAIN, Refused, Store, Unsettled, count_of
from cluster_core.errors import ProtocolError
from cluster_core.rdb.values import Record

TRANSACTION_COMMANDS_MAX = 1 << 24
DATABASE_DIGITS_MAX = 9
_WITHOUT_EFFECT: Final = frozenset(
    (
        "pfcount",
        "function",
        "script",
        "publish",
        "spublish",
        "ping",
        "discard",
        "watch",
        "unwatch",
        "echo",
        "replconf",
        "client",
    )
)
_TARGETS: Final = {
    "bitop": (2,), "copy": (2,), "geosearchstore": (1,), "pfmerge": (1,), "sdiffstore": (1,), "sinterstore": (1,),
    "sunionstore": (1,), "zdiffstore": (1,), "zinterstore": (1,), "zunionstore": (1,), "zrangestore": (1,),
    "sort": (-1,), "georadius": (-1,), "georadiusbymember": (-1,),
}  # fmt: skip
"""Which of a command's keys it writes, where it only reads others (-1: the last)."""
HANDLERS: Final[dict[str, Callable[[Store, Sequence[bytes]], None]]] = {
    **strings.HANDLERS, **collections.LIST_HANDLERS, **collections.SET_HANDLERS, **sorted_sets.HANDLERS, **collections.HASH_HANDLERS,
    **streams.HANDLERS, **keys.HANDLERS,
}  # fmt: skip


class LiveKey(NamedTuple):
    """One key: *type* and *elements* are None and -1 for an uncertain one, whose *why* is the command that made it so.

    *live_bytes* is what a log that just makes this key takes (`cluster_core.aof.live_bytes`).
    """

    db: int
    key: bytes
    type: str | None
    elements: int
    expire_at_ms: int
    live_bytes: int
    why: str


class Keyspace:
    """The keys of all databases after the commands so far.

    *unknown* counts, by name, commands whose effect is not modelled; *refused* those that a server would have refused;
    *commands* all that were run.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.unknown: Counter[str] = Counter()
        self.refused = 0
        self.commands = 0
        self._waiting: list[Sequence[bytes]] | None = None

    @property
    def waiting(self) -> int:
        """Commands of a transaction that has not ended."""
        return len(self._waiting) if self._waiting is not None else 0

    def add_record(self, db: int, record: Record) -> None:
        """Add a key of the base."""
        entry = keys.entry_of(self.store, record.type, record.value, record.expire_at_ms)
        self.store.databases.setdefault(db, {})[record.key] = entry

    def begin_file(self) -> None:
        """Begin the next file of the log: a server selects database 0 there, and drops a transaction that has not ended."""
        self.store.db = 0
        self._waiting = None

    def apply(self, words: Sequence[bytes]) -> None:
        """Run one command of the log.  Raises ProtocolError for an endless transaction."""
        name = words[0].decode("latin-1").lower()
        if name == "exec":
            waiting, self._waiting = self._waiting or [], None
            for held in waiting:
                self._run(held[0].decode("latin-1").lower(), held)
        elif self._waiting is not None:
            if len(self._waiting) == TRANSACTION_COMMANDS_MAX:
                raise ProtocolError(f"a transaction of more than {TRANSACTION_COMMANDS_MAX} commands")
            self._waiting.append(words)
        elif name == "multi":
            self._waiting = []
        else:
            self._run(name, words)

    def _run(self, name: str, words: Sequence[bytes]) -> None:
        self.commands += 1
        if name == "select":
            if len(words) == 2 and words[1].isdigit() and len(words[1]) <= DATABASE_DIGITS_MAX:
                self.store.db = int(words[1])
            return
        if name in _WITHOUT_EFFECT:
            return
        handler = HANDLERS.get(name)
        self.store.command = name
        if handler is None:
            self._doubt(name, words)
            return
        try:
            handler(self.store, words)
        except (Refused, IndexError, ValueError, OverflowError):
            self.refused += 1
        except Unsettled:
            self._doubt(name, words)

    def _doubt(self, name: str, words: Sequence[bytes]) -> None:
        """Count a command that is not modelled; the keys that it writes, or may write, are uncertain."""
        self.unknown[name] += 1
        positions = written_keys(words)
        if positions is None:
            positions = (1,) if len(words) > 1 else ()
        written = _TARGETS.get(name)
        if written is not None and positions:
            chosen = [positions[-1]] if written == (-1,) else [at for at in written if at in positions]
        else:
            chosen = list(positions)
        for at in chosen:
            self.store.doubt(words[at])

    def rows(self) -> Iterator[LiveKey]:
        """Yield every key, by database, in the order in which they were made."""
        for db in sorted(self.store.databases):
            for key, entry in self.store.databases[db].items():
                if entry.kind == UNCERTAIN:
                    yield LiveKey(db, key, None, -1, -1, -1, entry.why)
                else:
                    yield LiveKey(
                        db, key, entry.kind, count_of(entry), entry.expire_at_ms, live_bytes(key, entry), entry.why
                    )
