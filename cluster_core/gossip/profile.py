"""Which rules of the cluster protocol a server version follows: frozen values whose fields select rules.

No code compares versions: every difference that the machine needs is one field here, named after what it selects.
"""

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


class ChainFold(Enum):
    """When a node whose master became a replica follows that one's master (R66)."""

    NEVER = "never"
    WITH_SLOTS = "with a slot update"
    ON_ATTACH = "when a sender changes its master"


class ShardIds(Enum):
    """Who carries a shard id, and who else takes over one that is told (R65)."""

    NONE = "nobody"
    OF_MY_MASTER = "ours follows our master's"
    WHOLE_SHARD = "those of all replicas follow their master's"


class ExtensionReaders(Enum):
    """Who is sent extensions other than the host name (R16)."""

    KNOWN = "those that are known to read them"
    KNOWN_AND_ASKERS = "those, and whoever is answered"
    EVERYBODY = "everybody"


class ExtensionFlag(Enum):
    """Which headers carry EXT_DATA (R6)."""

    WITH_DATA = "those with an extension"
    ALWAYS = "all"
    GOSSIP = "PING, PONG and MEET"


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
    unclaimed_noted: bool = True
    """R71: a slot that its owner stops to claim may be taken by anybody."""
    chain_fold: ChainFold = ChainFold.WITH_SLOTS
    """R66."""
    shard_ids: ShardIds = ShardIds.NONE
    """R65."""
    host_names: bool = True
    """R5, R15: host names and shard channels are understood."""
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
    capabilities: int = 0
    """R20: what its own flags say that it can read."""
    copied_flags: int = 0
    """R48, R134: which flags of a header are noted of its sender."""
    extensions_learned: bool = False
    """R16: a header with EXT_DATA says that its sender reads extensions."""
    extension_readers: ExtensionReaders = ExtensionReaders.KNOWN
    """R16."""
    extension_flag: ExtensionFlag = ExtensionFlag.WITH_DATA
    """R6: which headers say that extensions are understood."""
    receiver_gossiped: bool = True
    """R39: gossip may be about the node that it is sent to."""
    gossip_draws: int = 3
    """R39: how many draws are made for each gossip entry that is wanted.  That of Valkey 9.1 is what its captures show:
    its tables draw the same node again more seldom than by chance."""
    reconnects_spread: bool = False
    """R29: attempts to connect are spread over half the node timeout (else each cron tries each node)."""
    meets_again: bool = False
    """R60: a node that does not connect to us is sent a MEET."""
    emptied_master_replaced: bool = False
    """R84: a replica stands for election even if its master has no slots."""
    rank_ties_by_id: bool = False
    """R87: of two replicas with one offset the smaller id ranks first."""
    rank_falls: bool = False
    """R88: a better rank shortens the delay (a worse one always lengthens it)."""
    delay_scaled: bool = False
    """R86: the delay of an election follows the node timeout, up to 500 ms."""
    failed_masters_ranked: bool = False
    """R89b: shards take turns when several masters fail at once."""
    best_replica_hurries: bool = False
    """R134: the best replica starts at once when all its siblings see the master fail, and asks with FORCEACK."""
    refusal_updates: bool = False
    """R90: a candidate with stale slots is sent an UPDATE."""
    rivals_end_elections: bool = False
    """R94: an election ends when a master publishes an epoch that is not older."""
    data_age_relog_factor: int = 1
    """R160: data that is too old is logged so many times less often than other reasons."""
    elections_reset: bool = False
    """R93, R132: the election is forgotten when it is won, when a manual failover starts or when the master changes."""
    role_changes_announced: bool = False
    """R132: a new role is told to all nodes at once."""
    bumps_announced: bool = False
    """R79, R80: an epoch taken after a collision or by BUMPEPOCH is told to all nodes at once (captures of 9.1)."""
    replicate_announces: bool = False
    """R67: CLUSTER REPLICATE is told to all nodes at once, and does nothing if it changes nothing."""
    full_sync_by_shard: bool = False
    """R67: only a master of one's own shard may be followed without a full sync."""
    stray_keys_deleted: bool = False
    """R126: keys in other nodes' slots are deleted at start (else their slots are marked as importing)."""
    client_addresses: bool = False
    """R15: nodes tell other addresses for clients (cluster-announce-client-ipv4, -ipv6)."""
    aux_fields: bool = False
    """R129: nodes.conf holds shard ids and other fields in name=value form."""
    shard_lists: bool = False
    """R131: CLUSTER SHARDS lists shards by shard id (else each master with its replicas)."""
    shard_ids_listed: bool = False
    """R131: CLUSTER SHARDS tells the shard ids."""
    commands_checked: bool = False
    """R56, R123: CLUSTER MEET says which port is impossible, SETSLOT refuses to move a slot to where it is."""
    first_size: int = 1
    """R130: the cluster size that CLUSTER INFO shows before it was counted."""
    info_of_nodes: bool = False
    """R130: CLUSTER INFO counts failing nodes."""
    info_of_limits: bool = True
    """R130: CLUSTER INFO counts links that were closed for their buffers."""
    info_of_bytes: bool = False
    """R130: CLUSTER INFO counts bytes."""
    word_for_master: str = "master"
    """R160: how the server's log calls a master."""
    addresses_logged: bool = False
    """R160: the log shows the address of a node that has no name."""
    names_logged: bool = False
    """R160: the log puts the node's name behind its id."""
    routing_table: str = "redis-7.0"
    """R114 to R121: whose commands and redirections it has."""


REDIS_7_0 = Profile("redis-7.0")
REDIS_6_2 = replace(
    REDIS_7_0,
    name="redis-6.2",
    unclaimed_noted=False,
    chain_fold=ChainFold.NEVER,
    host_names=False,
    info_of_limits=False,
)
REDIS_7_2 = replace(
    REDIS_7_0,
    name="redis-7.2",
    pfail_verdict=PfailVerdict.LONE_MASTER,
    shard_ids=ShardIds.OF_MY_MASTER,
    forgets_spread=True,
    extension_readers=ExtensionReaders.EVERYBODY,
    aux_fields=True,
    shard_lists=True,
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
    own_doubt_needs_slots=True,
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
    first_size=0,
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
    info_of_nodes=True,
)
VALKEY_9_1 = replace(
    VALKEY_9_0,
    name="valkey-9.1",
    copied_flags=LIGHT_HEADER_PUBLISH | LIGHT_HEADER_MODULE | MY_PRIMARY_FAIL,
    extension_readers=ExtensionReaders.KNOWN_AND_ASKERS,
    gossip_draws=5,
    best_replica_hurries=True,
    bumps_announced=True,
    commands_checked=True,
    info_of_bytes=True,
    shard_ids_listed=True,
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
"""Profiles by name, as a user gives them: those of each family from the oldest to the newest."""
