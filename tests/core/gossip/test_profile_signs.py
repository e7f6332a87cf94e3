"""Which server wrote a message: what versions write differently, alone and one after another (R6, R15, R16, R20, R39)."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from cluster_core.gossip.profile import PROFILES
from cluster_core.gossip.profile_signs import ProfileSigns
from cluster_core.wire.bus import Empty, Gossip, Message, MessageType, decode_message
from cluster_core.wire.bus_message import HOSTNAME, Extension, shard_id_extension, text_extension
from tests.benches.node_cluster import Cluster
from tests.builders.gossip_builder import A, B, C, entry, header, ping

FOLDER = Path(__file__).parents[2] / "data" / "bus-versions"
SHARD = shard_id_extension("7" * 40)
NAME = text_extension(HOSTNAME, "a.example")
EXT_DATA = b"\4\0\0"


def with_gossip(kind: MessageType, flags: int, *extensions: Extension, has_extensions: bool | None = None) -> Message:
    """A message with gossip; its header has EXT_DATA with extensions, or by *has_extensions*."""
    mflags = EXT_DATA if (bool(extensions) if has_extensions is None else has_extensions) else bytes(3)
    plain = ping(A, kind=kind, flags=flags, mflags=mflags, extensions=len(extensions))
    return Message(plain.header, Gossip((), extensions))


def bare(flags: int, *, has_extensions: bool = False) -> Message:
    """A vote request."""
    return Message(
        header(A, MessageType.AUTH_REQUEST, flags=flags, mflags=EXT_DATA if has_extensions else bytes(3)), Empty()
    )


PING, PONG, MEET = MessageType.PING, MessageType.PONG, MessageType.MEET


@pytest.mark.parametrize(
    ("messages", "fitting", "taken"),
    [
        ([with_gossip(PING, 0x111)], "redis-6.2 redis-7.0", "redis-7.0"),
        ([with_gossip(PING, 0x111, NAME)], "redis-7.0", "redis-7.0"),
        ([with_gossip(PING, 0x111, SHARD)], "redis-7.2 redis-7.4 redis-8 valkey-7.2", "redis-8"),
        ([with_gossip(PING, 0x111, SHARD), bare(0x12)], "redis-7.2 redis-7.4 valkey-7.2", "redis-7.4"),
        ([with_gossip(PING, 0x111, SHARD), bare(0x12, has_extensions=True)], "redis-8", "redis-8"),
        ([with_gossip(MEET, 0x111, has_extensions=True)], "redis-8 valkey-7.2", "redis-8"),
        ([with_gossip(MEET, 0x111, has_extensions=True), bare(0x12)], "valkey-7.2", "valkey-7.2"),
        ([with_gossip(PING, 0x911, SHARD)], "valkey-8.0", "valkey-8.0"),
        ([with_gossip(PING, 0x1D11, SHARD)], "valkey-8.1 valkey-9.0 valkey-9.1", "valkey-9.1"),
        ([with_gossip(PONG, 0x1D11, has_extensions=True)], "valkey-8.1 valkey-9.0 valkey-9.1", "valkey-9.1"),
        ([with_gossip(PING, 0x3C12, SHARD)], "valkey-9.1", "valkey-9.1"),
    ],
)
def test_messages_leave_the_versions_that_could_have_sent_them(
    messages: list[Message], fitting: str, taken: str
) -> None:
    """R6, R16, R20: several where the wire does not tell more."""
    signs = ProfileSigns()
    for message in messages:
        signs.note(message)

    assert " ".join(profile.name for profile in signs.fitting) == fitting
    assert signs.profile.name == taken


def test_gossip_about_its_receiver_is_of_redis_7_2_and_never_any_of_7_4() -> None:
    """R39: one such entry decides, and so do two hundred messages without one."""
    with_shard = Message(header(A, PING, count=1, extensions=1, mflags=EXT_DATA), Gossip((entry(B),), (SHARD,)))
    names, never = ProfileSigns(), ProfileSigns()

    names.note(with_shard, B)
    names.note(bare(0x111))
    for _ in range(200):
        never.note(with_shard, C)
    never.note(bare(0x111))

    assert [profile.name for profile in names.fitting] == ["redis-7.2", "valkey-7.2"]
    assert [profile.name for profile in never.fitting] == ["redis-7.4"]


@pytest.mark.parametrize(
    ("version", "name"), [("6.2.14", "redis-6.2"), ("7.0.15", "redis-7.0"), ("255.255.255", "redis-7.0")]
)
def test_a_log_decides_where_the_wire_does_not(version: str, name: str) -> None:
    """A version of development tells nothing."""
    signs = ProfileSigns()
    signs.note_version(version)
    signs.note(with_gossip(PING, 0x111))

    assert signs.profile.name == name


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("Valkey 8.1.8", ["valkey-8.1"]),
        ("Redis 8.2.3", ["redis-8"]),
        ("Valkey 255.255.255", ["valkey-7.2", "valkey-8.0", "valkey-8.1", "valkey-9.0", "valkey-9.1"]),
    ],
)
def test_a_named_server_follows_the_rules_of_its_own_family(version: str, names: list[str]) -> None:
    """A log or INFO of Valkey never selects a profile of Redis."""
    signs = ProfileSigns()
    signs.note_version(version)

    assert [profile.name for profile in signs.fitting] == names


def test_an_upgraded_node_has_its_new_version() -> None:
    """Signs that contradict all that was seen before are of another process."""
    signs = ProfileSigns()
    signs.note(with_gossip(PING, 0x111))
    signs.note(with_gossip(PING, 0x911, SHARD))

    assert signs.profile.name == "valkey-8.0"


def test_flags_that_no_server_has_change_nothing() -> None:
    """Only a light PUBLISH of 8.0 or both bits are known."""
    signs = ProfileSigns()
    signs.note(with_gossip(PING, 0x911, SHARD))
    signs.note(with_gossip(PING, 0x1011, SHARD))

    assert signs.profile.name == "valkey-8.0"


@pytest.mark.parametrize("name", PROFILES)
def test_messages_of_a_profiles_machine_match_that_profile(name: str) -> None:
    """Sent and recognised forms come from one table of profiles."""
    cluster = Cluster(4, profile=PROFILES[name], node_timeout_ms=1000)
    cluster.keep_messages = True
    cluster.form(3, 1)
    signs = [ProfileSigns() for _ in cluster.hosts]
    for _, sender, receiver, message in cluster.messages:
        signs[sender].note(message, cluster.hosts[receiver].id)

    assert all(PROFILES[name] in sign.fitting for sign in signs)


@pytest.mark.parametrize(
    ("recording", "version", "fitting"),
    [
        ("redis-6.2", "", "redis-6.2 redis-7.0"),
        ("redis-6.2", "6.2.14", "redis-6.2"),
        ("valkey-8.0", "", "valkey-8.0"),
        ("valkey-8.1-dev", "255.255.255", "valkey-8.0"),
    ],
)
def test_messages_of_real_servers_tell_their_version(recording: str, version: str, fitting: str) -> None:
    """The first eighty messages of a recording; 8.1 in development wrote the messages of 8.0 and followed its rules."""
    signs: dict[str, ProfileSigns] = {}
    with gzip.open(FOLDER / f"{recording}.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            sign = signs.setdefault(row["sender"], ProfileSigns())
            if version and sign.fitting == ProfileSigns().fitting:
                sign.note_version(version)
            sign.note(decode_message(base64.b64decode(row["raw"])), row["receiver"])

    assert len(signs) >= 3
    assert {" ".join(profile.name for profile in sign.fitting) for sign in signs.values()} == {fitting}
