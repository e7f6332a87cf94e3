"""Which rules of the cluster protocol a server version follows: frozen values whose fields select rules.

No code compares versions: every difference that the machine needs is one field here, named after what it selects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cluster_core.gossip.flags import EXTENSIONS_SUPPORTED, LIGHT_HEADER_MODULE, LIGHT_HEADER_PUBLISH


class PfailVerdict(Enum):
    """Who asks for FAIL at once when it sets PFAIL by silence (R53)."""

    NOBODY = "nobody"
    LONE_MASTER = "lone master"
    LONE_VOTER = "lone voter"
    EVERY_VOTER = "every voter"


class Demotion(Enum):
    """What happens to the slots of a master that says it is a replica now (R64)."""

    UNASSIGN = "unassign"
    MOVE = "move to its master in the same shard"
    PROMOTE = "promote its master in the same shard"
    GUARDED = "promote, move if that master was a replica, drop the stale"


@dataclass(frozen=True, slots=True)
class Profile:
    """The rules of one server version; the defaults are those of Redis 7.0."""

    name: str
    reporter_needs_slots: bool = False
    """R51: only masters with slots report failures (else any master)."""
    reports_end_at_fail: bool = False
    """R51: no failure reports are taken about a node that is already FAIL."""
    anyone_withdraws_reports: bool = False
    """R52: any sender, not only a reporter, takes its report back."""
    own_doubt_needs_slots: bool = False
    """R54: our own PFAIL counts in the quorum only if we have slots."""
    pfail_verdict: PfailVerdict = PfailVerdict.NOBODY
    """R53: who evaluates R54 when it sets PFAIL."""
    replicas_raise_epochs: bool = True
    """R48: the header of a replica raises the config epoch noted for it."""
    claims_of_replicas_read: bool = True
    """R69: the slots in a replica's header are compared with those of its master."""
    importing_slots_stay: bool = True
    """R70: a slot that is being imported is left alone by claims."""
    demotion: Demotion = Demotion.UNASSIGN
    """R64."""
    chains_fold_on_attach: bool = False
    """R66: a chain of replicas is folded when a sender changes its master (else with a slot update)."""
    shard_ids: bool = False
    """R65: nodes carry shard ids."""
    shard_joins: bool = False
    """R73: a node without slots follows a sender of its own shard."""
    odd_ids_void_gossip: bool = False
    """R42: one gossip entry with an impossible id voids the whole section."""
    gossip_refreshes_clean_only: bool = False
    """R44: gossip refreshes the pong time only of nodes without HANDSHAKE, MEET, PFAIL and FAIL."""
    forgets_spread: bool = False
    """R61: FORGET travels as an extension."""
    meet_binds_link: bool = False
    """R56: the link of a MEET belongs to the handshake that it starts."""
    meet_until_contact: bool = False
    """R30: the MEET flag stays until the node is heard (else until MEET was sent)."""
    mismatch_is_fail: bool = False
    """R58: a node whose address answers with another id is marked FAIL."""
    vote_spacing: bool = True
    """R90: no second vote for the same master's replicas within 2 node timeouts."""
    setslot_replicated: bool = False
    """R125: replicas follow CLUSTER SETSLOT through the replication stream."""


REDIS_7_0 = Profile("redis-7.0")
REDIS_8 = replace(
    REDIS_7_0,
    name="redis-8",
    pfail_verdict=PfailVerdict.LONE_MASTER,
    demotion=Demotion.MOVE,
    shard_ids=True,
    odd_ids_void_gossip=True,
    forgets_spread=True,
)
VALKEY_8_0 = replace(
    REDIS_8,
    name="valkey-8.0",
    reporter_needs_slots=True,
    own_doubt_needs_slots=True,
    pfail_verdict=PfailVerdict.LONE_VOTER,
    replicas_raise_epochs=False,
    claims_of_replicas_read=False,
    importing_slots_stay=False,
    demotion=Demotion.PROMOTE,
    chains_fold_on_attach=True,
    shard_joins=True,
    meet_binds_link=True,
    meet_until_contact=True,
    setslot_replicated=True,
)
VALKEY_8_1 = replace(
    VALKEY_8_0,
    name="valkey-8.1",
    pfail_verdict=PfailVerdict.EVERY_VOTER,
    mismatch_is_fail=True,
    vote_spacing=False,
)
VALKEY_9_1 = replace(
    VALKEY_8_1,
    name="valkey-9.1",
    reports_end_at_fail=True,
    anyone_withdraws_reports=True,
    demotion=Demotion.GUARDED,
    gossip_refreshes_clean_only=True,
)

PROFILES: dict[str, Profile] = {p.name: p for p in (REDIS_7_0, REDIS_8, VALKEY_8_0, VALKEY_8_1, VALKEY_9_1)}
"""Profiles by name, as a user gives them."""


def profile_of_header(flags: int, mflags: int) -> Profile:
    """Recognise the profile from the capability bits of a node's own header (R6, R20).

    Redis 7.0 sets none; Redis 7.2 and later say EXT_DATA; Valkey 8.0 takes light PUBLISH, 8.1 and later light MODULE.
    The wire does not tell 8.1 from 9.1 apart in quiet times: the newer is assumed, give the profile where that matters.
    """
    if flags & LIGHT_HEADER_MODULE:
        return VALKEY_9_1
    if flags & LIGHT_HEADER_PUBLISH:
        return VALKEY_8_0
    if flags & EXTENSIONS_SUPPORTED:
        return REDIS_8
    return REDIS_7_0
