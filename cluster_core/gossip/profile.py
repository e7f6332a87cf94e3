"""Protocol behaviour by server version: immutable profiles with one field per difference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cluster_core.gossip.flags import (
    EXTENSIONS_SUPPORTED,
    LIGHT_HEADER_MODULE,
    LIGHT_HEADER_PUBLISH,
    MY_PRIMARY_FAIL,
)


class PfailVerdict(Enum):
    """Nodes that evaluate FAIL when they set PFAIL by timeout (R53)."""

    NOBODY = "nobody"
    LONE_MASTER = "lone master"
    LONE_VOTER = "lone voter"
    EVERY_VOTER = "every voter"


class Demotion(Enum):
    """Slots of a master that announces the replica role (R64)."""

    UNASSIGN = "unassign"
    MOVE = "move to its master in the same shard"
    PROMOTE = "promote its master in the same shard"
    GUARDED = "promote, move if that master was a replica, drop the stale"


class ChainFold(Enum):
    """When a node follows the master of its demoted master (R66)."""

    NEVER = "never"
    WITH_SLOTS = "with a slot update"
    ON_ATTACH = "when a sender changes its master"


class ShardIds(Enum):
    """Nodes with a shard id, and propagation of an announced one (R65)."""

    NONE = "nobody"
    OF_MY_MASTER = "ours follows our master's"
    WHOLE_SHARD = "those of all replicas follow their master's"


class ExtensionReaders(Enum):
    """Receivers of extensions other than the host name (R16)."""

    KNOWN = "those that are known to read them"
    KNOWN_AND_ASKERS = "those, and whoever is answered"
    EVERYBODY = "everybody"


class ExtensionFlag(Enum):
    """Headers with EXT_DATA (R6)."""

    WITH_DATA = "those with an extension"
    ALWAYS = "all"
    GOSSIP = "PING, PONG and MEET"


@dataclass(frozen=True, slots=True)
class Profile:
    """Rules of one server version; defaults are those of Redis 7.0."""

    name: str
    reporter_needs_slots: bool = False
    """R51: only masters with slots report failures (else any master)."""
    reports_end_at_fail: bool = False
    """R51: no failure reports about a node in FAIL."""
    anyone_withdraws_reports: bool = False
    """R52: any sender withdraws its report, not only a master."""
    own_pfail_needs_slots: bool = False
    """R54: our own PFAIL counts in the quorum only if we have slots."""
    pfail_verdict: PfailVerdict = PfailVerdict.NOBODY
    """R53: nodes that evaluate R54 when they set PFAIL."""
    replicas_raise_epochs: bool = True
    """R48: a replica's header raises its recorded config epoch."""
    claims_of_replicas_read: bool = True
    """R69: slots in a replica's header are compared with its master's."""
    importing_slots_stay: bool = True
    """R70: claims do not change importing slots."""
    demotion: Demotion = Demotion.UNASSIGN
    """R64."""
    unclaimed_noted: bool = True
    """R71: slots that the owner stops claiming become free for anybody."""
    chain_fold: ChainFold = ChainFold.WITH_SLOTS
    """R66."""
    shard_ids: ShardIds = ShardIds.NONE
    """R65."""
    host_names: bool = True
    """R5, R15: host names and shard channels are supported."""
    shard_joins: bool = False
    """R73: a node without slots follows a sender in its shard."""
    odd_ids_void_gossip: bool = False
    """R42: one invalid node id in gossip voids the section."""
    gossip_refreshes_clean_only: bool = False
    """R44: gossip updates pong times only of nodes without HANDSHAKE, MEET, PFAIL and FAIL."""
    forgets_spread: bool = False
    """R61: FORGET is propagated as an extension."""
    meet_binds_link: bool = False
    """R56: the link of a MEET belongs to the handshake it starts."""
    meet_until_contact: bool = False
    """R30: the MEET flag stays until first contact (else until MEET is sent)."""
    mismatch_is_fail: bool = False
    """R58: a node is marked FAIL if its address replies with another id."""
    vote_spacing: bool = True
    """R90: no second vote for replicas of one master within 2 node timeouts."""
    setslot_replicated: bool = False
    """R125: replicas apply CLUSTER SETSLOT from the replication stream."""
    capabilities: int = 0
    """R20: capability flags of the node."""
    copied_flags: int = 0
    """R48, R134: flags copied from a sender's header."""
    extensions_learned: bool = False
    """R16: EXT_DATA in a header shows that the sender supports extensions."""
    extension_readers: ExtensionReaders = ExtensionReaders.KNOWN
    """R16."""
    extension_flag: ExtensionFlag = ExtensionFlag.WITH_DATA
    """R6: headers that announce support for extensions."""
    receiver_gossiped: bool = True
    """R39: gossip may include its receiver."""
    gossip_draws: int = 3
    """R39: draws per requested gossip entry; Valkey 9.1's value is fitted to captures."""
    reconnects_spread: bool = False
    """R29: connection attempts are spread over half the node timeout (else each cron tries each node)."""
    meets_again: bool = False
    """R60: nodes without an inbound link get a MEET."""
    emptied_master_replaced: bool = False
    """R84: a replica starts an election even if its master has no slots."""
    rank_ties_by_id: bool = False
    """R87: at equal offsets the smaller id ranks first."""
    rank_falls: bool = False
    """R88: a better rank shortens the delay (a worse one always extends it)."""
    delay_scaled: bool = False
    """R86: the election delay scales with the node timeout, up to 500 ms."""
    failed_masters_ranked: bool = False
    """R89b: shards are ranked when several masters fail at once."""
    best_replica_hurries: bool = False
    """R134: the best replica starts at once when all siblings see the master as FAIL, with FORCEACK."""
    refusal_updates: bool = False
    """R90: a candidate with stale slots gets an UPDATE."""
    rivals_end_elections: bool = False
    """R94: an election ends when a master claims an epoch that is not older."""
    data_age_relog_factor: int = 1
    """R160: "data too old" is logged this many times less often than other reasons."""
    elections_reset: bool = False
    """R93, R132: the election is reset when won, at a manual failover and when the master changes."""
    role_changes_announced: bool = False
    """R132: a new role is broadcast at once."""
    bumps_announced: bool = False
    """R79, R80: an epoch from a collision or BUMPEPOCH is broadcast at once (captures of 9.1)."""
    replicate_announces: bool = False
    """R67: CLUSTER REPLICATE is broadcast at once, and is a no-op without a change."""
    full_sync_by_shard: bool = False
    """R67: following a master without a full sync requires the same shard."""
    stray_keys_deleted: bool = False
    """R126: keys in other nodes' slots are deleted at start (else the slots are marked importing)."""
    client_addresses: bool = False
    """R15: separate addresses for clients (cluster-announce-client-ipv4, -ipv6)."""
    aux_fields: bool = False
    """R129: nodes.conf has shard ids and other fields as name=value."""
    word_for_master: str = "master"
    """R160: name of a master in the log."""
    addresses_logged: bool = False
    """R160: the log shows addresses of nodes without a name."""
    names_logged: bool = False
    """R160: the log shows node names after ids."""
    routing_table: str = "redis-7.0"
    """R114 to R121: table of commands and redirection rules."""


REDIS_7_0 = Profile("redis-7.0")
REDIS_6_2 = replace(
    REDIS_7_0,
    name="redis-6.2",
    unclaimed_noted=False,
    chain_fold=ChainFold.NEVER,
    host_names=False,
)
REDIS_7_2 = replace(
    REDIS_7_0,
    name="redis-7.2",
    pfail_verdict=PfailVerdict.LONE_MASTER,
    shard_ids=ShardIds.OF_MY_MASTER,
    forgets_spread=True,
    extension_readers=ExtensionReaders.EVERYBODY,
    aux_fields=True,
    names_logged=True,
)
REDIS_7_4 = replace(
    REDIS_7_2, name="redis-7.4", demotion=Demotion.MOVE, odd_ids_void_gossip=True, receiver_gossiped=False
)
REDIS_8 = replace(
    REDIS_7_4,
    name="redis-8",
    shard_ids=ShardIds.WHOLE_SHARD,
    extensions_learned=True,
    extension_readers=ExtensionReaders.KNOWN,
    extension_flag=ExtensionFlag.ALWAYS,
)
VALKEY_7_2 = replace(
    REDIS_7_2,
    name="valkey-7.2",
    reporter_needs_slots=True,
    own_pfail_needs_slots=True,
    pfail_verdict=PfailVerdict.LONE_VOTER,
    meet_until_contact=True,
    extensions_learned=True,
    extension_readers=ExtensionReaders.KNOWN,
    extension_flag=ExtensionFlag.GOSSIP,
)
VALKEY_8_0 = replace(
    VALKEY_7_2,
    name="valkey-8.0",
    replicas_raise_epochs=False,
    claims_of_replicas_read=False,
    importing_slots_stay=False,
    demotion=Demotion.PROMOTE,
    chain_fold=ChainFold.ON_ATTACH,
    shard_joins=True,
    odd_ids_void_gossip=True,
    meet_binds_link=True,
    setslot_replicated=True,
    capabilities=LIGHT_HEADER_PUBLISH,
    copied_flags=LIGHT_HEADER_PUBLISH,
    receiver_gossiped=False,
    emptied_master_replaced=True,
    rank_ties_by_id=True,
    rank_falls=True,
    replicate_announces=True,
    full_sync_by_shard=True,
    stray_keys_deleted=True,
    client_addresses=True,
    word_for_master="primary",
    routing_table="valkey-9.1",
)
VALKEY_8_1 = replace(
    VALKEY_8_0,
    name="valkey-8.1",
    pfail_verdict=PfailVerdict.EVERY_VOTER,
    mismatch_is_fail=True,
    vote_spacing=False,
    capabilities=EXTENSIONS_SUPPORTED | LIGHT_HEADER_PUBLISH | LIGHT_HEADER_MODULE,
    copied_flags=LIGHT_HEADER_PUBLISH | LIGHT_HEADER_MODULE,
    meets_again=True,
    failed_masters_ranked=True,
    refusal_updates=True,
    rivals_end_elections=True,
    data_age_relog_factor=10,
    elections_reset=True,
    role_changes_announced=True,
)
VALKEY_9_0 = replace(
    VALKEY_8_1,
    name="valkey-9.0",
    reports_end_at_fail=True,
    anyone_withdraws_reports=True,
    demotion=Demotion.GUARDED,
    gossip_refreshes_clean_only=True,
    reconnects_spread=True,
    delay_scaled=True,
)
VALKEY_9_1 = replace(
    VALKEY_9_0,
    name="valkey-9.1",
    copied_flags=LIGHT_HEADER_PUBLISH | LIGHT_HEADER_MODULE | MY_PRIMARY_FAIL,
    extension_readers=ExtensionReaders.KNOWN_AND_ASKERS,
    gossip_draws=5,
    best_replica_hurries=True,
    bumps_announced=True,
    addresses_logged=True,
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        REDIS_6_2,
        REDIS_7_0,
        REDIS_7_2,
        REDIS_7_4,
        REDIS_8,
        VALKEY_7_2,
        VALKEY_8_0,
        VALKEY_8_1,
        VALKEY_9_0,
        VALKEY_9_1,
    )
}
"""Profiles by name; each family from oldest to newest."""
