"""Messages of any kind, sane or not, as a Hypothesis strategy."""

from __future__ import annotations

from hypothesis import strategies as st

from cluster_core.gossip.flags import FAIL, MASTER, PFAIL, REPLICA
from cluster_core.gossip.profile import PROFILES
from cluster_core.wire.bus import Gossip, Message, MessageType
from cluster_core.wire.bus_message import Extension
from tests.builders.gossip_builder import ME, A, B, C, D, entry, fail, header, update

IDS = (ME, A, B, C, D, "9" * 40, "not hex", "")
SLOTS = ("", "0-5", "3-9", "0-16383", "9-20")
epochs = st.integers(0, 6)
ids = st.sampled_from(IDS)
profiles = st.sampled_from(list(PROFILES.values()))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    sender, kind = draw(ids), draw(st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 77]))
    if kind == MessageType.FAIL:
        return fail(sender, draw(ids))
    if kind == MessageType.UPDATE:
        return update(sender, draw(ids), draw(epochs), draw(st.sampled_from(SLOTS)))
    fields = {
        "replicaof": draw(st.sampled_from(["", "", A, B, D])),
        "config_epoch": draw(epochs),
        "current_epoch": draw(epochs),
        "mflags": bytes((draw(st.integers(0, 7)), 0, 0)),
    }
    head = header(sender, kind, slots=draw(st.sampled_from(SLOTS)), **fields)
    if kind > MessageType.MEET:
        return Message(head)
    flags = st.sampled_from([MASTER, REPLICA, MASTER | PFAIL, MASTER | FAIL, 0xFFFF])
    entries = draw(st.lists(st.builds(entry, ids, flags, st.integers(0, 2000)), max_size=4))
    extensions = draw(st.lists(st.builds(Extension, st.integers(0, 9), st.binary(max_size=48)), max_size=2))
    return Message(head, Gossip(tuple(entries), tuple(extensions)))
