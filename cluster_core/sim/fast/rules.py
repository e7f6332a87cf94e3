"""The rules and settings that one node follows, as numbers for the compiled loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cluster_core.gossip.profile import ChainFold, ExtensionFlag, ExtensionReaders, PfailVerdict, ShardIds
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.messages import extension_bytes
from cluster_core.wire.bus import NODE_ID_BYTES

if TYPE_CHECKING:
    from cluster_core.node.settings import NodeSettings

VERDICTS: Final = {
    PfailVerdict.NOBODY: at.NOBODY,
    PfailVerdict.LONE_MASTER: at.LONE_MASTER,
    PfailVerdict.LONE_VOTER: at.LONE_VOTER,
    PfailVerdict.EVERY_VOTER: at.EVERY_VOTER,
}
READERS: Final = {
    ExtensionReaders.KNOWN: at.KNOWN_READERS,
    ExtensionReaders.KNOWN_AND_ASKERS: at.KNOWN_AND_ASKERS,
    ExtensionReaders.EVERYBODY: at.EVERYBODY,
}
SAYINGS: Final = {
    ExtensionFlag.WITH_DATA: at.WITH_DATA,
    ExtensionFlag.GOSSIP: at.IN_GOSSIP,
    ExtensionFlag.ALWAYS: at.ALWAYS,
}


def rules_of(settings: NodeSettings) -> dict[int, int]:
    """The rows of a node that do not change while its process lives, by their planes."""
    profile = settings.profile
    return {
        at.TIMEOUT: settings.node_timeout_ms,
        at.PING_DUE: settings.ping_due_ms,
        at.PERCENT: settings.gossip_percent,
        at.MIGRATES: settings.allow_replica_migration,
        at.NO_FAILOVER: settings.no_failover,
        at.RECEIVER_GOSSIPED: profile.receiver_gossiped,
        at.GOSSIP_DRAWS: profile.gossip_draws,
        at.ANYONE_WITHDRAWS: profile.anyone_withdraws_reports,
        at.CLEAN_ONLY: profile.gossip_refreshes_clean_only,
        at.REPORTER_NEEDS_SLOTS: profile.reporter_needs_slots,
        at.REPORTS_END: profile.reports_end_at_fail,
        at.OWN_DOUBT_NEEDS_SLOTS: profile.own_doubt_needs_slots,
        at.VERDICT: VERDICTS[profile.pfail_verdict],
        at.REPLICAS_CLAIM: profile.claims_of_replicas_read,
        at.REPLICAS_RAISE: profile.replicas_raise_epochs,
        at.SHARD_IDS: profile.shard_ids is not ShardIds.NONE,
        at.READERS: READERS[profile.extension_readers],
        at.COPIES: profile.copied_flags,
        at.LEARNS_EXTENSIONS: profile.extensions_learned,
        at.SAYS_EXTENSIONS: SAYINGS[profile.extension_flag],
        at.MEETS_AGAIN: profile.meets_again,
        at.SHARD_JOINS: profile.shard_joins,
        at.CHAINS_FOLD_EARLY: profile.chain_fold is not ChainFold.WITH_SLOTS,
        at.COVERAGE_VERSION: -1,
        at.SPARE_VERSION: -1,
        at.EXTENSION_BYTES: extension_bytes("0" * NODE_ID_BYTES),
    }
