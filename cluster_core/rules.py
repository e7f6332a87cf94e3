"""Rules of the protocol: id, one sentence, deciding server function, first version.

R: cluster bus, P: replication, S: Sentinel. Functions are those of Valkey's and Redis's sources (`cluster_legacy.c`,
`replication.c`, `sentinel.c`); T is cluster-node-timeout. Tests check that all rules outside `CONTEXT` are cited.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rule(NamedTuple):
    """One rule; *decided_in* is a server function, *versions* the first version (empty: all)."""

    id: str
    text: str
    decided_in: str = ""
    versions: str = ""


_BUS: Final = """
R1 | The cluster bus is TCP. Its default port is the client port plus 10000. | clusterInit |
R2 | Integers on the bus are big-endian, strings have a fixed size, a node id is 40 hex characters. | clusterBuildMessageHdr |
R3 | A full header is 2256 bytes: sender, epochs, offset, slots, master, address, flags. | clusterBuildMessageHdr |
R4 | Slot s is bit s % 8, counted from the least significant, of byte s / 8 of the bitmap. | bitmapTestBit |
R5 | The bus has eleven message types; a decoder keeps an unknown type as unknown. | clusterProcessPacket |
R6 | Bits of the first byte of message flags: the master is paused, vote for a working master's replica, extensions understood. | clusterBuildMessageHdr |
R7 | A light header has 16 bytes and bit 0x8000 set in the type. It has no sender id; the sender is the link's node. | messageTypeSupportsLightHdr | Valkey 8.0
R8 | A node sends light messages only to nodes that advertise support. On a link without a known node, a light message closes the link. | clusterProcessPacket | Valkey 8.0
R9 | A gossip entry has 104 bytes: the sender's view of another node, with times in whole seconds. | clusterSetGossipEntry |
R10 | A FAIL message carries the id of the failed node. | clusterSendFail |
R11 | A PUBLISH message carries two lengths, the channel and the message. | clusterPropagatePublish |
R12 | An UPDATE message carries a config epoch, a node id and that node's slots. | clusterSendUpdate |
R13 | AUTH_REQUEST, AUTH_ACK and MFSTART have no body. | clusterSendFailoverAuth |
R14 | A MODULE message carries a module id, a length, a type and the module's bytes. | clusterSendModule |
R15 | Extensions follow the gossip entries. Each has a type and a length in multiples of 8; receivers skip unknown types. | writePingExtensions |
R16 | A node sends extensions only to nodes that understand them: always the shard id, others when set. Redis 7.0 sends only a host name, to any node. | writePingExtensions |
R17 | A receiver closes the link when signature or length is invalid, and processes one message at a time. | clusterReadHandler |
R18 | A receiver drops a message with a wrong version or a length that does not fit its type, and keeps the link. | clusterIsValidPacket |
R19 | The bus has no authentication. Any PONG answers the pending PING. | clusterProcessPacket |
R20 | Flag bits of a node give its role, health and capabilities. | clusterNode.flags |
R21 | A node keeps for each other node: identity, address, role, slots, epoch, links, ping times and failure reports. | clusterNode |
R22 | A node keeps for itself: epochs, its last vote, the cluster state, open slots, its election and its manual failover. | clusterState |
R23 | A master becomes a target of replica migration when it gains a replica, is promoted, or gets its first slot where others have replicas. | clusterNodeAddReplica |
R24 | Deleting a node unassigns its slots, closes its links and removes the failure reports that it made. | clusterDelNode |
R25 | The greatest epoch is the maximum of the current epoch and all nodes' config epochs. | clusterGetMaxEpoch |
R26 | The sender is the link's node if its handshake is done, else the node with the header's id. | getNodeFromLinkAndMsg |
R27 | Each node opens one link to every other node. A PONG returns on the PING's link; other messages use the sender's own link. | clusterCron |
R28 | The cluster cron runs every 100 ms: connections, a random ping, timeouts, failovers, migration, state. | clusterCron |
R29 | A handshake older than T (at least one second) is dropped. Nodes without a link are retried at every cron. | clusterNodeCronHandleReconnect |
R30 | A new link starts with MEET or PING. A reconnect keeps the send time of the unanswered ping. | clusterLinkConnectHandler |
R31 | Once a second a node draws five nodes and pings the one with the oldest pong. | clusterCron |
R32 | A node pings each node with a pong older than T/2. | clusterCron |
R33 | A PING on a node's own link starts the wait for an answer; MEET and PONG do not. | clusterSendPing |
R34 | PFAIL follows a crash after T to 1.5 T. | clusterCron |
R35 | A link older than T is reopened when a ping is unanswered for T/2 and no data arrived since. | clusterCron |
R37 | Any valid message from a known sender counts as data received. | clusterProcessPacket |
R38 | A ping gossips about a tenth of the nodes, at least three, at most all others. | clusterSendPing |
R39 | Gossip entries are drawn at random. The receiver, PFAIL nodes, handshakes and nodes without an address are skipped. | clusterSendPing |
R40 | Every ping also gossips all nodes that were PFAIL at the last cron. | clusterSendPing |
R41 | A PONG is built like a PING. It answers PING and MEET, and is broadcast when the sender's configuration changes. | clusterBroadcastPong |
R42 | A gossip section with a malformed node id is ignored. | clusterProcessGossipSection | Redis 7.2, Valkey 8.0
R43 | Gossip about a known node adds or removes a failure report. | clusterProcessGossipSection |
R44 | A healthy entry may update the pong time of a node without pending ping and without failure reports. | clusterProcessGossipSection |
R45 | A healthy entry updates the address of a node marked PFAIL or FAIL. | clusterProcessGossipSection |
R46 | A known node's gossip adds an unknown node without handshake, unless that node was forgotten. | clusterProcessGossipSection |
R47 | A node ignores gossip about itself. | clusterProcessGossipSection |
R48 | Every header of a known sender raises the current epoch and the sender's config epoch, and sets its offset. | clusterProcessPacket |
R49 | A node learns its own address from the socket of a MEET. | clusterProcessPacket |
R50 | A ping is processed in this order: handshake, flags, address, pong, role, slots, UPDATE, collision, gossip, extensions. | clusterProcessPacket |
R51 | A voting master that gossips a node as PFAIL or FAIL reports its failure (Redis: any master). | clusterNodeAddFailureReport |
R52 | A healthy entry removes the report. Reports expire after 2 T. | clusterNodeCleanupFailureReports |
R53 | A node is marked PFAIL when a ping is unanswered and no data arrived for longer than T. A PONG clears PFAIL. | clusterCron |
R54 | PFAIL becomes FAIL when a quorum of voting masters agrees; the node that decides broadcasts FAIL. | markNodeAsFailingIfNeeded |
R55 | A FAIL message from a known sender marks the node FAIL at once. | clusterProcessPacket |
R55b | A PONG clears FAIL: of a replica or empty master at once, of a master with slots after 2 T. | clearNodeFailureIfNeeded |
R55c | PFAIL is local to a node and travels only in gossip. | markNodeAsFailingIfNeeded |
R56 | CLUSTER MEET adds a node in handshake with a random id; so does a MEET from an unknown sender. | clusterStartHandshake |
R57 | The first answer to a handshake gives the node its real id, or drops the handshake if the id is known. | clusterProcessPacket |
R58 | When another id answers on a link, the node loses its address; Valkey 8.1 and later also mark it FAIL. | clusterProcessPacket |
R59 | A handshake lasts at most T (at least one second). Nodes in handshake get no broadcasts and are not gossiped. | clusterNodeCronHandleReconnect |
R60 | A node sends MEET again to a known node that never opens a link to it. | clusterNodeCronHandleReconnect | Valkey 8.1
R61 | A forgotten node is refused for a minute; Redis 7.2 and later also spread the removal. | clusterBlacklistAddNode |
R62 | A PING from a new address updates the sender's address. | nodeUpdateAddressIfNeeded |
R63 | A header without a master id marks the sender as a master. | clusterSetNodeAsPrimary |
R64 | A known master becomes a replica when its header names a master. Its slots depend on the version. | clusterProcessPacket |
R65 | A replica whose header names another master moves to it and takes its shard id. | clusterProcessPacket |
R66 | A node whose master became a replica follows that replica's master. | clusterProcessPacket |
R67 | A node needs zero slots to become a replica. It then ends its manual failover and starts replication. | clusterSetPrimary |
R68 | In each node's table a slot has at most one owner. | clusterAddSlot |
R69 | Slot claims are evaluated when the sender's bitmap differs from its known slots. | clusterProcessPacket |
R70 | A claimed slot goes to the claimant if it has no owner, its owner no longer claims it, or its owner's epoch is smaller. | clusterUpdateSlotsConfigWith |
R71 | A slot that its owner no longer claims stays assigned until another node claims it. | clusterUpdateSlotsConfigWith |
R72 | Open slots follow a failover of the other side (Valkey). | clusterUpdateSlotsConfigWith | Valkey 8.0
R73 | A shard that lost its last slot follows the new owner; a replica of an empty master follows its successor. | clusterUpdateSlotsConfigWith |
R74 | Keys of lost slots are deleted. | clusterUpdateSlotsConfigWith |
R75 | Config epochs belong to nodes, not to slots. | clusterUpdateSlotsConfigWith |
R76 | A sender that claims a slot of an owner with a greater epoch receives an UPDATE. | clusterProcessPacket |
R77 | An UPDATE holds the owner's id, epoch and claimed slots. | clusterSendUpdate |
R78 | An UPDATE with a greater epoch than the known one counts as that owner's own claim. | clusterProcessPacket |
R79 | A node without the greatest epoch may take the next one without consensus. | clusterBumpConfigEpochWithoutConsensus |
R80 | When two masters have the same config epoch, the one with the smaller id takes a new epoch. | clusterHandleConfigEpochCollision |
R81 | CLUSTER SET-CONFIG-EPOCH requires a node that knows no other node and has epoch 0. | clusterCommandSpecial |
R82 | CLUSTER RESET forgets all nodes and slots; HARD also resets the epochs and the id. | clusterReset |
R83 | Replicas check at every cron whether to start an election. | clusterHandleReplicaFailover |
R84 | A replica starts an election when its master is FAIL or a manual failover is due, unless failover is disabled. | clusterHandleReplicaFailover |
R85 | A replica with data older than the validity factor allows does not start an election. | clusterHandleReplicaFailover |
R86 | An election is delayed by 500 ms, a random part and one second per rank (Valkey 9.0 and later: scaled to T). | clusterHandleReplicaFailover |
R87 | A replica's rank is the number of siblings with a greater offset. | clusterGetReplicaRank |
R88 | A changed rank moves the start of a waiting election. | clusterHandleReplicaFailover |
R89 | At the start of its election a candidate takes the next epoch and requests a vote from every node. | clusterHandleReplicaFailover |
R89b | Shards that fail together start their elections one after another. | clusterGetFailedPrimaryRank | Valkey 8.1
R90 | A voting master votes once per epoch, for a replica of a FAIL master if no claimed slot's owner has a greater epoch. | clusterSendFailoverAuthIfNeeded |
R91 | A refused vote appears only in the voter's log, with the reason. | clusterSendFailoverAuthIfNeeded |
R92 | A candidate counts votes of voting masters for its epoch or a later one. | clusterProcessPacket |
R93 | With a quorum of votes a candidate takes its master's role and slots under the election's epoch. | clusterFailoverReplaceYourPrimary |
R94 | The other replicas learn of the winner from its PONG and follow it. | clusterProcessPacket |
R95 | A node saves epochs and votes to disk before it sends the message that depends on them. | clusterSaveConfigOrDie |
R96 | A vote is spent for the whole cluster: shards with elections in the same epoch split the votes. | clusterSendFailoverAuthIfNeeded |
R97 | CLUSTER FAILOVER asks the master to pause; FORCE skips the master, TAKEOVER also skips the election. | clusterCommandSpecial |
R98 | On MFSTART a master pauses its clients and sets PAUSED in every header. | clusterProcessPacket |
R99 | A manual failover's election starts when the replica reaches the paused master's offset. | clusterHandleManualFailover |
R100 | A manual failover times out after five seconds. | manualFailoverCheckTimeout |
R101 | A master paused for a manual failover sends no replication pings. | replicationCron |
R102 | A manual failover is MFSTART, paused headers, requests, votes and a PONG with the new epoch. | clusterHandleManualFailover |
R103 | A replica considers migration when a master has no working replica left and its own master has the most. | clusterCron |
R104 | The replica with the smallest id migrates, if its master keeps enough replicas. | clusterHandleReplicaMigration |
R105 | A replica migrates to a master that was orphaned for five seconds. | clusterHandleReplicaMigration |
R106 | A restarted master waits two seconds before it considers the cluster healthy. | clusterUpdateState |
R107 | With full coverage required, a slot without a working owner sets the cluster state to FAIL. | clusterUpdateState |
R108 | A node that reaches no majority of the voting masters sets the cluster state to FAIL. | clusterUpdateState |
R109 | A master that returns from a minority waits T, at most five seconds, before it serves again. | clusterUpdateState |
R110 | A node evaluates the cluster state before sleep, in the cron and after a won election. | clusterUpdateState |
R111 | A master in a minority accepts writes for about T. It loses them when it rejoins as a replica. | clusterUpdateState |
R112 | A key's slot is its CRC16 (XMODEM) modulo 16384. | keyHashSlot |
R113 | If the text between the first { and the next } is not empty, only that text is hashed. | keyHashSlot |
R114 | Commands with keys are checked for redirection; commands without keys run locally. | getNodeByQuery |
R115 | All keys of a command must belong to one slot. | getNodeByQuery |
R116 | A slot is migrating on its owner and importing on its target. | getNodeByQuery |
R117 | In an open slot a node counts the command's missing and existing keys. | getNodeByQuery |
R118 | A node in cluster state FAIL refuses commands, unless reads are allowed. | getNodeByQuery |
R119 | In an open slot: ASK for missing keys, TRYAGAIN if only some are missing; otherwise serve or MOVED. | getNodeByQuery |
R120 | MOVED and ASK name slot and endpoint, in the preferred endpoint type. | clusterRedirectClient |
R121 | ASKING applies to one command, READONLY until READWRITE. | getNodeByQuery |
R122 | A client blocked on a key gets an error when its slot moves or the cluster state becomes FAIL. | clusterRedirectBlockedClientIfNeeded |
R123 | SETSLOT MIGRATING requires the owner, IMPORTING another node; STABLE closes the slot, NODE assigns it. | clusterParseSetSlotCommand |
R124 | SETSLOT NODE gives the importer a new epoch; a master that gives away its last slot becomes a replica. | clusterCommandSetSlot |
R125 | SETSLOT runs on the replicas before it runs on the master. | clusterCommandSetSlot | Valkey 8.0
R126 | At start a node marks slots of other nodes that hold keys as importing (Valkey: deletes the keys). | verifyClusterConfigWithData |
R127 | Atomic slot migration is visible on the bus only as a new epoch and a PONG broadcast. | clusterCommandMigrateSlots | Valkey 9.0
R128 | A line of CLUSTER NODES is id, address, flags, master, times, epoch, link and slots. | clusterGenNodeDescription |
R129 | nodes.conf has the same lines, and the epochs. | clusterLoadConfig |
R130 | CLUSTER INFO has the state, slot and node counts, epochs and message counters. | genClusterInfoString |
R131 | CLUSTER SHARDS reports fail, loading or online; CLUSTER SLOTS omits replicas that failed or have no data. | clusterGenNodesSlotsInfo |
R132 | Valkey 8.1 staggers elections of shards, resets them on newer epochs and drops the minimum time between votes. | clusterHandleReplicaFailover | Valkey 8.1
R133 | Valkey 9.0 scales election delays to T and rounds failure reports to seconds. | clusterHandleReplicaFailover | Valkey 9.0
R134 | The best replica starts without delay once all its siblings advertise that their master failed. | clusterHandleReplicaFailover | Valkey 9.1
R135 | Valkey 9.1 keeps the flag MY_PRIMARY_FAIL on a promoted replica. | clusterFailoverReplaceYourPrimary | Valkey 9.1
R136 | Versions after 9.1 may refuse votes by message and may use another bus protocol. | clusterReadHandler | after Valkey 9.1
R160 | Server log lines report failures, votes, refusals and elections in fixed phrases. | serverLog |
R161 | On one connection a node's epochs never decrease. A config epoch is at most the current epoch. | clusterBuildMessageHdr |
R162 | A node votes once per epoch. | clusterSendFailoverAuthIfNeeded |
R163 | An epoch has one winner. | clusterHandleReplicaFailover |
R164 | A won election requires the votes of a quorum. | clusterHandleReplicaFailover |
R165 | A FAIL requires the sender's own PFAIL and enough reports of the last 2 T. | markNodeAsFailingIfNeeded |
R166 | When two masters claim one slot, the one with the smaller epoch loses. | clusterUpdateSlotsConfigWith |
R167 | A header's flags hold exactly one role, and never PFAIL or FAIL for the sender. | clusterBuildMessageHdr |
R168 | A replica's header shows its master's epoch and slots. | clusterBuildMessageHdr |
R169 | A master's offset never decreases within a replication id. | clusterBuildMessageHdr |
R170 | The next cron is due 100 ms after the end of the last. | clusterCron |
R171 | All pings of one cron are built before any answer to them is read. | clusterCron |
R172 | A ping has 2256 bytes, 104 per gossip entry, plus extensions. | clusterSendPing |
R173 | Each FAIL decision is broadcast to all nodes; several nodes may decide at once. | clusterSendFail |
R174 | A simulation draws the servers' random choices from its seed. | clusterHandleReplicaFailover |
R175 | Gossip times come from other nodes' clocks and are trusted up to half a second ahead. | clusterProcessGossipSection |
"""

_REPLICATION: Final = """
P1 | Replication state: an id, an offset, the previous id with its last valid offset, and a backlog. | shiftReplicationId |
P2 | A replica requests the stream from its offset plus one, or a full resynchronisation. | replicaTryPartialResynchronization |
P3 | A master continues if it knows the id and its backlog covers the offset; else it sends all data. | primaryTryPartialResynchronization |
P4 | A replica that continues under a new id keeps the old one as its second. | replicaTryPartialResynchronization |
P5 | A promoted replica takes a new id and keeps the old one up to its offset. | shiftReplicationId |
P6 | A demoted master tries to continue from its own id. This works if it wrote nothing that the winner lacks. | replicationCachePrimaryUsingMyself |
P7 | A full resynchronisation replaces id, second id and backlog. | readSyncBulkPayload |
P8 | Creating or freeing a backlog gives a new id. | freeReplicationBacklog |
P9 | Offsets count the bytes of the replication stream, including its pings. | replicationFeedReplicas |
P10 | Replicas acknowledge their offset each second; repl-timeout without data closes the link. | replicationCron |
P11 | A replica's bus header carries its processed offset. | replicationGetReplicaOffset |
"""

_SENTINEL: Final = """
S1 | A Sentinel finds masters by name, their replicas by INFO and other Sentinels by hello. | sentinelHandleDictOfRedisInstances |
S2 | PING is sent every second, INFO every ten, hello every two; the timer runs at 10 to 20 Hz. | sentinelSendPeriodicCommands |
S3 | A hello holds the Sentinel's address, id and epoch, and the master's name, address and config epoch. | sentinelSendHello |
S4 | A hello with a greater config epoch is adopted; a new address switches the master. | sentinelProcessHelloMessage |
S5 | PONG, LOADING and MASTERDOWN are valid answers to a ping. | sentinelPingReplyCallback |
S6 | An instance is subjectively down after down-after without a valid answer. | sentinelCheckSubjectivelyDown |
S7 | A master is objectively down when a quorum of Sentinels considers it down. | sentinelCheckObjectivelyDown |
S8 | One request asks another Sentinel whether a master is down, and for its vote. | sentinelAskPrimaryStateToOtherSentinels |
S9 | A Sentinel votes once per epoch, for the first that asks. | sentinelVoteLeader |
S10 | A failover starts when the master is objectively down and none started for twice the failover timeout. | sentinelStartFailoverIfNeeded |
S11 | The leader needs a majority of the known Sentinels, and at least the quorum. | sentinelGetLeader |
S12 | A Sentinel that is not elected within ten seconds aborts its failover. | sentinelFailoverWaitStart |
S13 | The replica to promote is connected, fresh, and the first by priority, offset and id. | sentinelSelectReplica |
S14 | A failover promotes a replica, reconfigures the others and publishes the new configuration. | sentinelFailoverStateMachine |
S15 | Only the leader acts; the others follow by hello. An old master becomes a replica. | sentinelFixReplicaConfig |
S16 | A timer jump puts a Sentinel into TILT: it monitors without acting. | sentinelCheckTiltCondition |
S17 | One vote per master and epoch, one leader per epoch; config epochs never decrease. | sentinelVoteLeader |
"""

CONTEXT: Final = frozenset({"R19", "R43", "R55c", "R75", "R101", "R122", "R136", "R168", "R171", "R173"})
"""Rules that no code cites; they follow from others."""


def _read(table: str) -> dict[str, Rule]:
    rows = (Rule(*(cell.strip() for cell in line.split("|"))) for line in table.strip().splitlines())
    return {rule.id: rule for rule in rows}


RULES: Final = _read(_BUS) | _read(_REPLICATION) | _read(_SENTINEL)
"""Every rule by its id."""


def sentence(rule: str) -> str:
    """Return the sentence of a rule; empty for other causes (`poll`, `own header`)."""
    known = RULES.get(rule)
    return known.text if known else ""
