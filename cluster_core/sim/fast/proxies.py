"""Nodes whose clocks, flags and reports live in the arrays of the compiled gossip loop.

In the place of an object of the plain machine stands one whose fields read and write the arrays: so there is one truth, and whatever the
machine decides needs no copying back and forth.  `ArrayClasses` makes these classes for one simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cluster_core.gossip.view import Coverage, Peer, View
from cluster_core.node.state import NodeState
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.stand_ins import Reports
from cluster_core.sim.host import Stream

if TYPE_CHECKING:
    from cluster_core.sim.fast.state import SteadyState

Anything = TypeVar("Anything")

WIDE: Final = {
    "data_received_ms": at.DATA,
    "config_epoch": at.EPOCH,
    "repl_offset": at.OFFSET,
    "inbound_lost_ms": at.INBOUND_LOST,
    "ctime_ms": at.CTIME,
    "meet_sent_ms": at.MEET_SENT,
    "fail_time_ms": at.FAIL_TIME,
}
"""Fields of a peer that are numbers in an array and nothing else."""
ADDRESS_FIELDS: Final = ("ip", "port", "cport", "pport")
SHADOWED: Final = ("shard_id", *ADDRESS_FIELDS)
"""Fields of a peer that stay what they are and have a number in an array beside them."""
VIEW_NUMBERS: Final = {
    "version": at.VERSION,
    "current_epoch": at.CURRENT_EPOCH,
    "minority_ms": at.MINORITY,
    "size_shown": at.SIZE_SHOWN,
}
VIEW_TRUTHS: Final = {"state_stale": at.STALE, "ok": at.OK}
VIEW_FIELDS: Final = (*VIEW_NUMBERS, *VIEW_TRUTHS)
PEER_FIELDS: Final = tuple(field.name for field in fields(Peer) if field.name != "reports")
STATE_FIELDS: Final = tuple(field.name for field in fields(NodeState))
STATE_NUMBERS: Final = {
    "iteration": at.ITERATION,
    "doubts": at.DOUBTS,
    "fit_version": at.FIT,
    "offset": at.MY_OFFSET,
}


def number_field(plane: memoryview, where: Callable[[Any], int], kind: Callable[[int], Any] = int) -> property:
    """A field that is a number in *plane*."""

    def read(self: Any) -> Any:
        return kind(plane[where(self)])

    def plain(self: Any) -> Any:
        return plane[where(self)]

    def write(self: Any, value: Any) -> None:
        plane[where(self)] = value

    return property(plain if kind is int else read, write)


def slot_of(kind: type, name: str) -> Any:
    """What reads and writes a slot of *kind*."""
    return getattr(kind, name)


class CellPeer(Peer):
    """A peer with a place in the arrays."""

    __slots__ = ("cell",)

    cell: int


class RowState(NodeState):
    """The state of a node with a row in the arrays."""

    __slots__ = ("row",)

    row: int


def moved_to(kind: type[Anything], old: Any, **own: int) -> Anything:
    """An object of *kind* with the fields of *old*; what has a place in the arrays goes there, or comes from there."""
    made = object.__new__(kind)
    for name, value in own.items():
        setattr(made, name, value)
    for name in fields_of(old):
        setattr(made, name, getattr(old, name))
    return made


def fields_of(value: Any) -> tuple[str, ...]:
    """The fields of a peer, a state or a view."""
    if isinstance(value, View):
        return (*(name for name in vars(value) if name != "row"), *(VIEW_FIELDS if type(value) is not View else ()))
    return PEER_FIELDS if isinstance(value, Peer) else STATE_FIELDS


def peer_class(steady: SteadyState) -> type[CellPeer]:
    """Peers of *steady*."""
    wide, narrow, nodes = steady.store.wide, steady.store.narrow, steady.nodes
    where = slot_of(CellPeer, "cell").__get__
    own: dict[str, Any] = {"__slots__": ()}
    for name, plane in WIDE.items():
        own[name] = number_field(wide[plane], where)
    own["pong_received_ms"] = _pong_field(steady.store.pongs, where, steady.base_ms)
    own["ping_sent_ms"] = _ping_field(wide[at.PING_SENT], steady.store.pongs, where)
    own["flags"] = _flags_field(steady, where)
    own["due_ms"] = number_field(steady.store.due, where)
    own["reports"] = property(lambda peer: Reports(steady, where(peer)))
    outbound, inbound, made = narrow[at.OUTBOUND], narrow[at.INBOUND], wide[at.MADE]

    def link_field(plane: memoryview) -> Any:
        def read(peer: Peer) -> int | None:
            link = plane[where(peer)]
            return link if link >= 0 else None

        return read

    def set_outbound(peer: Peer, link: int | None) -> None:
        at_cell = where(peer)
        outbound[at_cell] = at.NONE if link is None else link
        if link is not None:
            known = steady.views[at_cell // nodes].links.get(link)
            made[at_cell] = known.made_ms if known is not None else 0

    def set_inbound(peer: Peer, link: int | None) -> None:
        inbound[where(peer)] = at.NONE if link is None else link

    own["outbound"] = property(link_field(outbound), set_outbound)
    own["inbound"] = property(link_field(inbound), set_inbound)
    own["slots"], own["replicaof"] = _slots_field(steady, where), _master_field(steady, where)
    for name in SHADOWED:
        own[name] = _shadowed(slot_of(Peer, name), where, _NOTES[name](steady))
    return type("ArrayPeer", (CellPeer,), own)


def _shadowed(slot: Any, where: Callable[[Any], int], note: Callable[[int, Any], None]) -> property:
    put = slot.__set__

    def write(peer: Peer, value: Any) -> None:
        put(peer, value)
        note(where(peer), value)

    return property(slot.__get__, write)


def _pong_field(plane: memoryview, where: Callable[[Any], int], base_ms: int) -> property:
    def read(peer: Peer) -> int:
        pong = plane[where(peer)] & at.PONG_BITS
        return pong - at.FIRST_MS + base_ms if pong else 0

    def write(peer: Peer, time_ms: int) -> None:
        cell = where(peer)
        plane[cell] = plane[cell] & at.PINGED | (time_ms - base_ms + at.FIRST_MS if time_ms else 0)

    return property(read, write)


def _flags_field(steady: SteadyState, where: Callable[[Any], int]) -> property:
    plane, settle_marks, nodes = steady.store.flags, steady.store.settle_marks, steady.nodes

    def write(peer: Peer, flags: int) -> None:
        cell = where(peer)
        new = plane[cell] & ~at.FLAG_BITS | flags & at.FLAG_BITS
        if new != plane[cell]:
            settle_marks(cell // nodes)
            plane[cell] = new

    return property(lambda peer: plane[where(peer)] & at.FLAG_BITS, write)


def _ping_field(plane: memoryview, pongs: memoryview, where: Callable[[Any], int]) -> property:
    def write(peer: Peer, time_ms: int) -> None:
        cell = where(peer)
        plane[cell] = time_ms
        pongs[cell] = pongs[cell] | at.PINGED if time_ms else pongs[cell] & at.PONG_BITS

    return property(lambda peer: plane[where(peer)], write)


def _slots_field(steady: SteadyState, where: Callable[[Any], int]) -> property:
    plane, number, sets = steady.store.narrow[at.SLOTS], steady.numbers.slots, steady.numbers.sets

    def write(peer: Peer, slots: int) -> None:
        plane[where(peer)] = number(slots)

    return property(lambda peer: sets[plane[where(peer)]], write)


def _master_field(steady: SteadyState, where: Callable[[Any], int]) -> property:
    """A master that is no node of the arrays is kept in the slot."""
    plane, index_of, ids = steady.store.narrow[at.MASTER_OF], steady.index_of, steady.ids
    slot = slot_of(Peer, "replicaof")

    def read(peer: Peer) -> str:
        number = plane[where(peer)]
        if number >= 0:
            return ids[number]
        return "" if number == at.NONE else slot.__get__(peer)

    def write(peer: Peer, master: str) -> None:
        slot.__set__(peer, master)
        plane[where(peer)] = index_of.get(master, at.UNKNOWN) if master else at.NONE

    return property(read, write)


def _note_shard(steady: SteadyState) -> Callable[[int, Any], None]:
    plane, number = steady.store.narrow[at.SHARD], steady.numbers.shard

    def note(cell: int, shard: str) -> None:
        plane[cell] = number(shard)

    return note


def _note_address(steady: SteadyState) -> Callable[[int, Any], None]:
    dirty = steady.moved

    def note(cell: int, _: Any) -> None:
        dirty[cell] = None

    return note


_NOTES: Final[dict[str, Callable[[Any], Callable[[int, Any], None]]]] = {
    "shard_id": _note_shard,
    **dict.fromkeys(ADDRESS_FIELDS, _note_address),
}


def view_class(steady: SteadyState) -> type[View]:
    """Views of *steady*; `row` is an attribute of their own."""
    rows = steady.store.rows
    own: dict[str, Any] = {}
    for name, plane in VIEW_NUMBERS.items():
        own[name] = number_field(rows[plane], _row_of_view)
    for name, plane in VIEW_TRUTHS.items():
        own[name] = number_field(rows[plane], _row_of_view, bool)
    cover = steady.store.cover

    def covered(view: View) -> Coverage:
        row: int = view.row  # type: ignore[attr-defined]  # of ArrayView
        if row in steady.strangers or steady.members[row][1:] != (view.members, len(view.nodes)):
            return View.covered(view)
        if rows[at.COVERAGE_VERSION][row] != rows[at.VERSION][row]:
            cover(row)
        return Coverage(bool(rows[at.UNCOVERED][row]), rows[at.SIZE][row], rows[at.REACHABLE][row])

    own["covered"] = covered
    own["size"] = lambda view: covered(view).size
    said: dict[int, tuple[int, int]] = {}

    def said_version(view: View) -> int:
        version, runs = said.get(_row_of_view(view), (-1, -1))
        return version if runs == steady.store.runs else -1  # the loop moves clocks unseen

    def say_version(view: View, version: int) -> None:
        said[_row_of_view(view)] = version, steady.store.runs

    own["said_version"] = property(said_version, say_version)
    return type("ArrayView", (View,), own)


def _row_of_view(view: Any) -> int:
    return view.row  # type: ignore[no-any-return]


def state_class(steady: SteadyState) -> type[RowState]:
    """States of *steady*."""
    where = slot_of(RowState, "row").__get__
    own: dict[str, Any] = {"__slots__": ()}
    for name, plane in STATE_NUMBERS.items():
        own[name] = number_field(steady.store.rows[plane], where)
    return type("ArrayState", (RowState,), own)


def stream_class(steady: SteadyState, arrival: int, opened: int, path: int) -> type[Stream]:
    """One direction of the connections of *steady*; the cell stands where their `arrival_us` stood."""
    cell = slot_of(Stream, "arrival_us")
    where = cell.__get__
    plane, number = steady.store.narrow[path], steady.numbers.path
    path_slot, held_slot = slot_of(Stream, "path"), slot_of(Stream, "held")

    def note(stream: Stream) -> None:
        plane[where(stream)] = number(stream.path) if stream.held is None else at.NONE

    def write(slot: Any) -> Callable[[Any, Any], None]:
        def put(stream: Stream, value: Any) -> None:
            slot.__set__(stream, value)
            note(stream)

        return put

    own: dict[str, Any] = {
        "__slots__": (),
        "cell": cell,
        "arrival_us": number_field(steady.store.wide[arrival], where),
        "is_open": number_field(steady.store.narrow[opened], where, bool),
        "path": property(path_slot.__get__, write(path_slot)),
        "held": property(held_slot.__get__, write(held_slot)),
    }
    return type("ArrayStream", (Stream,), own)
