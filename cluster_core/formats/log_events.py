"""What a line of a server log tells of the cluster: text to event, Redis and Valkey wording (R160).

Texts are matched from their first character, so what a client put into a line (its name, an address) cannot look like
another event.  Words changed over time (slave, replica; master, primary; ``(name)`` behind node ids since Redis 7.2 and
Valkey 7.2): all are known here, whichever server wrote them.

Kinds that a replay has too bear its names: ``fail-decided``, ``fail-learned``, ``election-started``, ``vote``,
``election-won``, ``manual-failover-requested`` (at the replica), ``manual-failover-mfstart`` (at its master),
``manual-failover-paused``, ``state-ok``, ``state-fail``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cluster_core.kinds import EventKind

EPOCH_MAX: Final = 2**64 - 1
DETAIL_CHARS_MAX: Final = 200

_ID = "[0-9a-f]{40}"
_NAMED = r"(?: \([^)]*\))?"
_WORDS = {
    "<subject>": rf"(?P<subject>{_ID}){_NAMED}",
    "<peer>": rf"(?P<peer>{_ID}){_NAMED}",
    "<id>": rf"{_ID}{_NAMED}",
    "<epoch>": r"(?P<epoch>\d{1,20})",
    "<number>": r"(?P<detail>\d{1,20})",
    "<shard>": rf"(?: in shard {_ID})?",
    "<master>": "(?:master|primary)",
    "<rest>": r"(?P<detail>.*)",
}


class LogEvent(NamedTuple):
    """What a text tells: *subject* is the node that it is about, *peer* another one that it names.

    *epoch* is None where none is named.  *detail* is the rest worth knowing: a reason, a delay, a slot, an offset, the
    server's name and version (``Valkey 8.1.8``).
    """

    kind: EventKind
    subject: str = ""
    peer: str = ""
    epoch: int | None = None
    detail: str = ""


NOTHING: Final = LogEvent(EventKind.NOTHING)
"""What a line tells that tells nothing of the cluster."""

_MAP: Final[tuple[tuple[str, str, str], ...]] = (
    # failure detection (R51 to R55b, R106 to R109)
    ("pfail", "NODE|*** NODE", r" <subject> possibly failing"),
    ("report-added", "Node", r" <peer> reported node <subject> as not reachable"),
    ("report-removed", "Node", r" <peer> reported node <subject> is back online"),
    ("fail-decided", "Marking node", r" <subject> as failing \(quorum reached\)"),
    ("fail-learned", "FAIL message received from", r" <peer> about <subject>"),
    ("fail-ignored", "Ignoring FAIL message from unknown node", r" <peer> about <subject>"),
    ("fail-cleared", "Clear FAIL state for node", r" <subject>: ?<rest>"),
    ("state-ok", "Cluster state changed: ok", ""),
    ("state-fail", "Cluster state changed: fail", ""),
    ("state-reason", "Cluster is currently down:", r" <rest>"),
    # elections (R83 to R96)
    ("election-scheduled", "Start of election delayed for", r" (?P<detail>\d+ milliseconds \(.*\))"),
    ("election-undelayed", "This is|Myself become", r" the best ranked replica"),
    ("election-rank", "Replica|Slave|Failed primary", r" rank updated to (?P<detail>.*)"),
    ("election-started", "Starting a failover election for epoch", r" <epoch>"),
    ("election-reset", "Failover election in progress for epoch", r" <epoch>, but received <rest>"),
    ("election-stalled", "Currently unable to failover:", r" <rest>"),
    ("election-votes", "Needed quorum:", r" (?P<detail>\d+\. Number of votes received so far: \d+)"),
    ("vote", "Failover auth granted to", r" <subject> for epoch <epoch>"),
    (
        "vote-refused",
        "Failover auth denied to",
        r" <subject>(?: for epoch <epoch>)?: "
        r"(?P<detail>(?:reqEpoch \((?P<epoch1>\d+)\)|already voted for epoch (?P<epoch2>\d+))?.*)",
    ),
    ("election-won", "Failover election won", ""),
    ("became-master", "Setting myself to", r" <master> in shard <id> after failover; my old <master> is <subject>"),
    # manual failover (R97 to R102)
    ("manual-failover-requested", "Manual failover user request accepted", ""),
    ("manual-failover-forced", "Forced failover", r" (?:user|<master>) request accepted"),
    ("manual-failover-mfstart", "Manual failover requested by", r" (?:replica|slave) <subject>"),
    ("manual-failover-paused", "Received replication offset for paused", r" <master> manual failover: <number>"),
    ("manual-failover-ready", "All", r" <master> replication stream processed, manual failover can start"),
    ("manual-failover-timed-out", "Manual failover timed out", ""),
    ("takeover", "Taking over the", r" <master>"),
    # roles (R63 to R67, R103 to R105)
    (
        "became-replica",
        "Configuration change detected. Reconfiguring myself as a replica of",
        r" (?:node )?<subject>",
    ),
    (
        "became-replica",
        "Lost my last slot during slot migration. Reconfiguring myself as a replica of",
        r" <subject>",
    ),
    (
        "became-replica",
        "I'm a sub-replica!|I'm a sub-slave!",
        r" Reconfiguring myself as a replica of (?:grandmaster )?<subject>(?: from <peer>)?",
    ),
    ("replica-migration", "Migrating to orphaned", r" <master> <subject>"),
    ("emptied", "My last slot was migrated to node", r" <peer>"),
    ("replica-seen", "Node", r" <subject> is now a replica of node <peer>"),
    ("master-seen", "Reconfiguring node", r" <subject> as <master> for shard"),
    ("demotion-seen", "Node", r" <subject> is no longer <master> of shard <rest>"),
    ("shard-seen", "Node", r" <subject> is now part of shard (?P<detail><id>)"),
    (
        "failover-seen",
        "A failover occurred in shard",
        r" <id>; node <peer> (?:lost <number> slot\(s\) )?(?:and )?(?:failed over )?to node <subject> with a config epoch of <epoch>",
    ),
    ("shard-joined", "Moving myself to a new shard", r" (?P<detail><id>)"),
    ("stale-message", "Ignore stale message from", r" <subject><shard>; <rest>"),
    # epochs (R79 to R82)
    ("config-epoch", "configEpoch set to", r" <epoch> after successful (?P<detail>failover)"),
    ("config-epoch", "configEpoch set to", r" <epoch> via CLUSTER (?P<detail>SET-CONFIG-EPOCH|RESET HARD)"),
    ("config-epoch", "New configEpoch set to", r" <epoch>"),
    ("slot-imported", "configEpoch|ConfigEpoch", r" updated after importing slot <number>"),
    (
        "epoch-collision",
        "configEpoch collision|WARNING: configEpoch collision",
        r" with node <subject>\. configEpoch set to <epoch>",
    ),
    # slots (R69 to R78, R123 to R127)
    ("update-sent", "Node", r" <peer> has old slots configuration, sending an UPDATE message about <subject>"),
    (
        "update-received",
        "Processing UPDATE message received from",
        r" <peer><shard> about node <subject>.*new configEpoch <epoch>",
    ),
    (
        "slots-moved",
        "Slot",
        r" (?:range \[)?(?P<detail>\d+(?:, \d+)?)\]? is migrated from node <peer><shard> to node <subject>",
    ),
    ("slot-assigned", "Assigning slot", r" <number> to node <subject>"),
    ("slot-migrating", "Migrating slot", r" <number> to node <subject>"),
    ("slot-importing", "Importing slot", r" <number> from node <subject>"),
    ("slot-stable", "Marking slot", r" <number> stable"),
    ("slot-closed", "Slot", r" <number> is no longer being (?:migrated to|imported from) node <subject>"),
    (
        "slot-retargeted",
        "Failover occurred in migration source.|Failover occurred in migration target.",
        r" .*[sS]lot <number> .*node <subject>",
    ),
    ("slots-deleted", "Deleting keys in dirty slot", r" <number>"),
    ("slot-migration", "Slot migration initiated|Slot migration {", r"<rest>"),
    ("slot-migration", "New slot import job created:|Connecting slot migration", r" <rest>"),
    ("slot-migration", "Beginning snapshot of slot migration|Pausing writes", r" <rest>"),
    ("write-loss", "Write loss risk!", r" <rest>"),
    # membership and addresses (R49, R56 to R62)
    (
        "identity",
        "No cluster configuration found,|Node configuration loaded,|Node hard reset,",
        r" (?:now )?I'm <subject>",
    ),
    ("meet-ordered", "Cluster meet", r" (?P<detail>\S+)"),
    ("forget-ordered", "Cluster forget", r" <subject>"),
    ("reset-ordered", "Cluster reset (", ""),
    ("handshake-completed", "Successfully completed handshake with", r" <subject>"),
    ("handshake-completed", "Handshake with node", r" <subject> completed"),
    ("node-renamed", "Renaming node", r" <peer> into <subject>"),
    ("node-removed", "Deleting node", r" <subject> from cluster view"),
    ("meet-sent", "Sending MEET packet to node", r" <subject> because there is no inbound link"),
    ("address-updated", "Address updated for node", r" <subject>, now <rest>"),
    ("own-address", "IP address for this node updated to", r" <rest>"),
    ("bad-bus-bytes", "Bad message length or signature received", ""),
    # the process and its replication (P5, P6)
    ("started", "Redis version=|Valkey version=", r"(?P<detail>[^,]+), .* just started"),
    ("listening", "Running mode=", r"(?P<detail>\w+, port=\d+)"),
    ("ready", "Ready to accept connections", ""),
    ("stopping", "User requested shutdown|Received SIGTERM|Received SIGINT|Received shutdown signal", ""),
    ("crashed", "Redis|Valkey", r" \S+ crashed by signal: <number>"),
    ("stopped", "Redis|Valkey|Sentinel", r" is now ready to exit, bye bye"),
    ("master-link-lost", "Connection with", r" <master> lost"),
    ("master-link-up", "MASTER <-> REPLICA sync:|PRIMARY <-> REPLICA sync:", r" Finished with success"),
    ("master-link-up", "Successful partial resynchronization with", r" <master>"),
    ("master-connecting", "Connecting to", r" (?:MASTER|PRIMARY) <rest>"),
    ("sync-asked", "Replica|Slave", r" (?P<detail>\S+) asks for synchronization"),
    ("replica-link-lost", "Connection with replica", r" (?P<detail>\S+) lost"),
    ("resync-asked", "Trying a partial resynchronization (request", r" <id>:<number>\)"),
    (
        "resync-refused",
        "Partial resynchronization not possible|Partial resynchronization not accepted|Unable to partial resync",
        r":? ?<rest>",
    ),
    ("resync-served", "Partial resynchronization request from", r" (?P<detail>\S+) accepted"),
    ("full-resync", "Full resync from", r" <master>: (?P<detail><id>:\d+)"),
    ("full-resync-served", "Full resync requested by", r" (?:replica|slave) <rest>"),
    ("data-flushed", "MASTER <-> REPLICA sync:|PRIMARY <-> REPLICA sync:", r" Flushing old data"),
    ("data-flushed", "RDB signature and version check passed. Flushing old data", ""),
    ("data-loaded", "Done loading RDB, keys loaded:", r" <number>"),
    ("follow-ordered", "REPLICAOF", r" (?P<detail>\S+:\d+) enabled"),
    ("replid-changed", "Setting secondary replication ID to", r" <id>, valid up to offset: <number>"),
)
"""Kind, how the text begins (alternatives between ``|``), and an expression for the rest; ``<…>`` is what varies."""

KINDS: Final = tuple(dict.fromkeys(EventKind(kind) for kind, _, _ in _MAP))
"""Every kind there is."""


STARTS: Final = tuple(dict.fromkeys(start for _, starts, _ in _MAP for start in starts.split("|")))
"""How the text of a line with an event begins."""


def _compiled() -> dict[str, list[tuple[EventKind, tuple[str, ...], re.Pattern[str]]]]:
    """The map by the first letter of the texts."""
    found: dict[str, list[tuple[EventKind, tuple[str, ...], re.Pattern[str]]]] = {}
    for kind, start, rest in _MAP:
        starts = tuple(start.split("|"))
        for word, expression in _WORDS.items():
            rest = rest.replace(word, expression)
        pattern = re.compile(f"(?:{'|'.join(map(re.escape, starts))}){rest}")
        for letter in dict.fromkeys(text[0] for text in starts):
            found.setdefault(letter, []).append((EventKind(kind), starts, pattern))
    return found


_BY_LETTER: Final = _compiled()


def event_of(text: str) -> LogEvent | None:
    """Return what the text of a line tells of the cluster, or None.

    >>> event_of("Failover auth granted to " + "a" * 40 + " (127.0.0.1:7004) for epoch 9")
    LogEvent(kind=<EventKind.VOTE: 'vote'>, subject='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', peer='', epoch=9, detail='')
    """
    for kind, starts, pattern in _BY_LETTER.get(text[:1], ()):
        match = pattern.match(text) if text.startswith(starts) else None
        if match is not None:
            told = match.groupdict()
            epoch = told.get("epoch") or told.get("epoch1") or told.get("epoch2")
            number = int(epoch) if epoch is not None and len(epoch) <= len(str(EPOCH_MAX)) else None
            detail = (told.get("detail") or "")[:DETAIL_CHARS_MAX].rstrip(". ")
            if kind is EventKind.STARTED:
                detail = f"{text.partition(' ')[0]} {detail}"
            return LogEvent(
                kind,
                told.get("subject") or "",
                told.get("peer") or "",
                None if number is None or number > EPOCH_MAX else number,
                detail,
            )
    return None
