"""Key space after a log: a base of keys and a replay of commands (`loadAppendOnlyFiles`).

Type, length and PEXPIRETIME are exact or unknown: keys of commands that are unknown, or have effects outside the log,
become uncertain (`Store`). Commands after MULTI run at EXEC; an open transaction is dropped. Expired keys stay until their
logged DEL, as in servers.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cluster_core.aof.collections import HASH_HANDLERS, LIST_HANDLERS, SET_HANDLERS, ZSET_HANDLERS
from cluster_core.aof.command_keys import written_keys
from cluster_core.aof.live_bytes import live_bytes
from cluster_core.aof.store import (
    MODULE,
    NEVER,
    UNCERTAIN,
    Entry,
    Refused,
    Store,
    UnknownEffect,
    count_of,
    lowered,
    number,
)
from cluster_core.aof.streams import STREAM_HANDLERS
from cluster_core.aof.strings import STRING_HANDLERS
from cluster_core.errors import DecodeError, EncodeError, ProtocolError
from cluster_core.formats.aof.framing import CommandReader
from cluster_core.rdb.export import MODULE_2, PAYLOAD_KEY, payload_commands
from cluster_core.rdb.writer import TAIL_BYTES
from cluster_core.slots.key_slot import key_slot

Args = Sequence[bytes]


def _del(store: Store, args: Args) -> None:
    for key in args[1:]:
        store.remove(key)


def _expireat(scale: int) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        entry = store.find(args[1])
        if entry is None:
            raise Refused
        when, options, old = number(args[2]) * scale, lowered(args[3:]), entry.expire_at_ms
        if (b"nx" in options and old >= 0) or (b"xx" in options and old < 0):
            raise Refused
        if (b"gt" in options and (old < 0 or when <= old)) or (b"lt" in options and 0 <= old <= when):
            raise Refused
        entry.expire_at_ms = max(when, 0)

    return run


def _persist(store: Store, args: Args) -> None:
    entry = store.find(args[1])
    if entry is None:
        raise Refused
    entry.expire_at_ms = NEVER


def _rename(store: Store, args: Args) -> None:
    entry = store.keys.get(args[1])
    if entry is None:
        raise Refused
    if args[1] != args[2]:
        store.keys[args[2]] = store.keys.pop(args[1])


def _renamenx(store: Store, args: Args) -> None:
    if store.find(args[2]) is not None:
        raise Refused
    _rename(store, args)


def _move(store: Store, args: Args) -> None:
    target = store.databases.setdefault(number(args[2]), {})
    entry = store.keys.get(args[1])
    if entry is None or args[1] in target:
        if args[1] in target and target[args[1]].kind == UNCERTAIN:
            raise UnknownEffect
        raise Refused
    target[args[1]] = store.keys.pop(args[1])


def _copy(store: Store, args: Args) -> None:
    options = lowered(args[3:])
    db = number(options[options.index(b"db") + 1]) if b"db" in options else store.db
    entry = store.keys.get(args[1])
    target = store.databases.setdefault(db, {})
    held = target.get(args[2])
    if entry is None or (held is not None and b"replace" not in options):
        if held is not None and held.kind == UNCERTAIN:
            raise UnknownEffect
        raise Refused
    target[args[2]] = copy.deepcopy(entry)


def _restore(store: Store, args: Args) -> None:
    """RESTORE key ttl payload [REPLACE] [ABSTTL] …: a DUMP payload with version and checksum."""
    key, payload, options = args[1], args[3], lowered(args[4:])
    if store.find(key) is not None and b"replace" not in options:
        raise Refused
    ttl = number(args[2])
    if ttl and b"absttl" not in options:
        raise UnknownEffect
    if len(payload) <= TAIL_BYTES:
        raise Refused
    entry = Entry(MODULE, None) if payload[0] == MODULE_2 else _entry_of_payload(payload)
    entry.expire_at_ms = ttl or NEVER
    store.keys[key] = entry


def _entry_of_payload(payload: bytes) -> Entry:
    """Return the value of a DUMP payload; UnknownEffect if unreadable."""
    keyspace = Keyspace()
    try:
        keyspace.add_base(payload_commands(payload))
        return keyspace.store.keys[PAYLOAD_KEY]
    except (DecodeError, EncodeError, KeyError):
        raise UnknownEffect from None


def _flushdb(store: Store, args: Args) -> None:
    store.keys.clear()


def _flushall(store: Store, args: Args) -> None:
    store.databases.clear()


def _swapdb(store: Store, args: Args) -> None:
    first, second = number(args[1]), number(args[2])
    held = store.databases.pop(first, {}), store.databases.pop(second, {})
    store.databases[second], store.databases[first] = held


def _flushslot(store: Store, args: Args) -> None:
    """CLUSTER FLUSHSLOT slot (Valkey 9)."""
    if args[1].lower() != b"flushslot":
        raise Refused
    slot = number(args[2])
    for keys in store.databases.values():
        for key in [key for key in keys if key_slot(key) == slot]:
            del keys[key]


KEY_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "del": _del, "unlink": _del, "expireat": _expireat(1000), "pexpireat": _expireat(1),
    "persist": _persist, "rename": _rename, "renamenx": _renamenx, "move": _move, "copy": _copy, "restore": _restore,
    "restore-asking": _restore, "flushdb": _flushdb, "flushall": _flushall, "swapdb": _swapdb, "cluster": _flushslot,
}  # fmt: skip


TRANSACTION_COMMANDS_MAX = 1 << 24
DATABASE_DIGITS_MAX = 9
_WITHOUT_EFFECT: Final = frozenset({
    "pfcount", "function", "script", "publish", "spublish", "ping", "discard", "watch", "unwatch", "echo", "replconf", "client",
})  # fmt: skip
_TARGETS: Final = {
    "bitop": (2,), "copy": (2,), "geosearchstore": (1,), "pfmerge": (1,), "sdiffstore": (1,), "sinterstore": (1,),
    "sunionstore": (1,), "zdiffstore": (1,), "zinterstore": (1,), "zunionstore": (1,), "zrangestore": (1,),
    "sort": (-1,), "georadius": (-1,), "georadiusbymember": (-1,),
}  # fmt: skip
"""Keys that a command writes, if it only reads others (-1: the last)."""
HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    **STRING_HANDLERS,
    **LIST_HANDLERS,
    **SET_HANDLERS,
    **ZSET_HANDLERS,
    **HASH_HANDLERS,
    **STREAM_HANDLERS,
    **KEY_HANDLERS,
}


class LiveKey(NamedTuple):
    """One key: *type* None and *elements* -1 if uncertain; *why* is the command behind it.

    *live_bytes*: bytes of a log that only creates this key (`cluster_core.aof.live_bytes`).
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

    *commands* counts all commands, *refused* those that a server would refuse, *unknown* the unmodelled ones by name.
    """

    def __init__(self) -> None:
        self.store = Store()
        self.unknown: Counter[str] = Counter()
        self.refused = 0
        self.commands = 0
        self._waiting: list[Sequence[bytes]] | None = None

    @property
    def waiting(self) -> int:
        """Return the commands queued in an open transaction."""
        return len(self._waiting) if self._waiting is not None else 0

    def add_base(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Add the keys of a base, given as *pieces* of the commands that create them."""
        reader, commands = CommandReader("base"), self.commands
        for piece in pieces:
            reader.feed(bytes(piece))
            for command in reader.commands():
                self._run(command.name, command.arguments)
        self.store.db = 0
        self.commands = commands

    def begin_file(self) -> None:
        """Start the next file: database 0, open transaction dropped."""
        self.store.db = 0
        self._waiting = None

    def apply(self, args: Sequence[bytes]) -> None:
        """Run one logged command. Raises ProtocolError for a transaction above the size limit."""
        name = args[0].decode("latin-1").lower()
        if name == "exec":
            waiting, self._waiting = self._waiting or [], None
            for held in waiting:
                self._run(held[0].decode("latin-1").lower(), held)
        elif self._waiting is not None:
            if len(self._waiting) == TRANSACTION_COMMANDS_MAX:
                raise ProtocolError(f"a transaction of more than {TRANSACTION_COMMANDS_MAX} commands")
            self._waiting.append(args)
        elif name == "multi":
            self._waiting = []
        else:
            self._run(name, args)

    def _run(self, name: str, args: Sequence[bytes]) -> None:
        self.commands += 1
        if name == "select":
            if len(args) == 2 and args[1].isdigit() and len(args[1]) <= DATABASE_DIGITS_MAX:
                self.store.db = int(args[1])
            return
        if name in _WITHOUT_EFFECT:
            return
        handler = HANDLERS.get(name)
        self.store.command = name
        if handler is None:
            self._mark_uncertain(name, args)
            return
        try:
            handler(self.store, args)
        except (Refused, IndexError, ValueError, OverflowError):
            self.refused += 1
        except UnknownEffect:
            self._mark_uncertain(name, args)

    def _mark_uncertain(self, name: str, args: Sequence[bytes]) -> None:
        """Count an unmodelled command; keys it may write become uncertain."""
        self.unknown[name] += 1
        positions = written_keys(args)
        if positions is None:
            positions = (1,) if len(args) > 1 else ()
        written = _TARGETS.get(name)
        if written is not None and positions:
            chosen = [positions[-1]] if written == (-1,) else [at for at in written if at in positions]
        else:
            chosen = list(positions)
        for at in chosen:
            self.store.mark_uncertain(args[at])

    def rows(self) -> Iterator[LiveKey]:
        """Yield every key by database, in creation order."""
        for db in sorted(self.store.databases):
            for key, entry in self.store.databases[db].items():
                if entry.kind == UNCERTAIN:
                    yield LiveKey(db, key, None, -1, -1, -1, entry.why)
                else:
                    yield LiveKey(
                        db, key, entry.kind, count_of(entry), entry.expire_at_ms, live_bytes(key, entry), entry.why
                    )
