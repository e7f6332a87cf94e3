"""Fold headers of messages into spans of each node: rows in, spans out."""

from __future__ import annotations

from decimal import Decimal

from cluster_core.incidents.thresholds import Thresholds
from cluster_core.slots.node_flags import NodeFlags
from schemas.history import BUS_MESSAGES
from slotscope.pipelines.bus.headers import LARGEST, NO_STATES, Basis, HeaderStates, message_notes
from slotscope.runtime.storage.runs import Run

A, B, C = "a" * 40, "b" * 40, "c" * 40
TIMEOUT_MS = 1000
T0_NS, SECOND = 1_700_000_000_000_000_000, 1_000_000_000
BASIS = Basis(TIMEOUT_MS, True, T0_NS, T0_NS + 2 * SECOND)
MASTER, REPLICA, MYSELF = int(NodeFlags.MASTER), int(NodeFlags.REPLICA), int(NodeFlags.MYSELF)
SELF_REPLICA = MYSELF | REPLICA


def header(sender, ref, at_s, **fields):
    """A whole header on connection 1."""
    return {
        "message_id": ref, "ts_ns": T0_NS + int(at_s * SECOND), "connection": 1, "from_opener": True, "sender": sender,
        "current_epoch": Decimal(3), "config_epoch": Decimal(1), "repl_offset": Decimal(0), "bitmap_id": 5,
        "node_flags": MYSELF | MASTER, "state": 0, "light": False, **fields,
    }  # fmt: skip


def claim(node, from_s, to_s, refs, messages, flags=MASTER, replicaof="", epochs=(3, 1), offsets=(0, 0), **fields):
    """The note of one span: claims that stayed the same from the first of *refs* to the last."""
    numbers = [
        T0_NS + int(from_s * SECOND), T0_NS + int(to_s * SECOND), *refs, messages, flags, *epochs, fields.get("slots", 5),
        0, *offsets, int(fields.get("silent", False)),
    ]  # fmt: skip
    return ("claim", [node, replicaof], numbers, None)


def notes(*headers, states=NO_STATES):
    """What `message_notes` makes of *headers*, in order."""
    run = Run("/nowhere", "history", "one")
    run.append(BUS_MESSAGES, headers)
    rows = [note for batch in message_notes(run, BASIS, states) for note in batch.to_pylist()]
    return sorted(tuple(note.values()) for note in rows)


def test_a_span_lasts_until_a_node_sends_another_state():
    """Headers in order of their messages, whatever order the rows are in; each node is folded for itself."""
    actual = notes(
        header(A, 7, 1.0, node_flags=SELF_REPLICA, replicaof=B),
        header(B, 3, 0.2, repl_offset=Decimal(20)),
        header(A, 1, 0.0, repl_offset=Decimal(4)),
        header(A, 4, 0.5, repl_offset=Decimal(9)),
        header(B, 9, 1.1, repl_offset=Decimal(30)),
        header(A, 8, 1.2, node_flags=SELF_REPLICA, replicaof=B),
    )

    assert actual == [
        claim(A, 0.0, 0.5, (1, 4), 2, offsets=(4, 9)),
        claim(A, 1.0, 1.2, (7, 8), 2, flags=REPLICA, replicaof=B),
        claim(B, 0.2, 1.1, (3, 9), 2, offsets=(20, 30)),
    ]  # fmt: skip


def test_a_node_without_messages_for_long_is_silent_after_its_span():
    """Longer than `Thresholds.silence_ns`, to its next header or to the end of the replay; exactly as long is not silent."""
    silence_s = Thresholds(TIMEOUT_MS * 1_000_000).silence_ns / SECOND
    actual = notes(header(A, 1, 0), header(A, 2, silence_s + 0.01), header(B, 3, 2 - silence_s), header(C, 4, 0))

    assert actual == [
        claim(A, 0, 0, (1, 1), 1, silent=True),
        claim(A, silence_s + 0.01, silence_s + 0.01, (2, 2), 1),
        claim(B, 2 - silence_s, 2 - silence_s, (3, 3), 1),
        claim(C, 0, 0, (4, 4), 1, silent=True),
    ]  # fmt: skip


def test_incomplete_headers_are_ignored():
    actual = notes(
        header(A, 1, 0, light=True),
        header(A, 2, 0, node_flags=None),
        header(A, 3, 0, state=None),
        header(A, 4, 0, bitmap_id=None),
        header(None, 5, 0),
        header("", 6, 0),
        header(f"{A}\n<script>", 7, 0),
    )

    assert actual == notes() == []


def test_unsigned_and_unknown_64_bit_numbers_are_clamped():
    greatest, unknown = Decimal(2**64 - 1), {"current_epoch": None, "config_epoch": None, "repl_offset": None}
    actual = notes(
        header(A, 1, 1, current_epoch=greatest, config_epoch=greatest, repl_offset=greatest),
        header(B, 2, 1, **unknown),
    )

    assert actual == [
        claim(A, 1, 1, (1, 1), 1, epochs=(LARGEST, LARGEST), offsets=(LARGEST, LARGEST)),
        claim(B, 1, 1, (2, 2), 1, epochs=(0, 0)),
    ]  # fmt: skip


def test_headers_read_in_two_parts_give_the_rows_of_all():
    """Settled rows are not read again; unsettled rows are in no state."""
    headers = [
        header(A, 1, 0.0), header(A, 2, 0.1, current_epoch=Decimal(2)), header(B, 3, 0.2),
        header(A, 4, 0.3, node_flags=SELF_REPLICA, replicaof=B), header(B, 5, 0.4), header(A, 6, 0.5),
    ]  # fmt: skip
    first = notes(*headers[:4], states=HeaderStates(0, 4))
    states = {key[0]: state for what, key, _, state in first if what == "state"}
    rest = notes(*headers[3:], states=HeaderStates(4, -1, states))

    assert set(states) == {A, B}
    assert rest == notes(*headers)
