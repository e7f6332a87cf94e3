"""Rules of the protocol: id, one sentence, deciding server function, first version.

R: cluster bus, P: replication, S: Sentinel. Functions are those of Valkey's and Redis's sources (`cluster_legacy.c`,
`replication.c`, `sentinel.c`); T is cluster-node-timeout. A test checks that each cited rule exists and each rule is
cited or in `CONTEXT`.
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
R1 | The cluster bus is TCP; its port is the client port plus 10000 unless the configuration says another. | clusterInit |
R2 | Integers on the bus are big-endian, strings have a fixed size, a node id is 40 hex characters. | clusterBuildMessageHdr |
R3 | A full message begins with a header of 2256 bytes: sender, epochs, offset, slots, master, address, flags. | clusterBuildMessageHdr |
R4 | Slot s is bit s % 8, counted from the least significant, of byte s / 8 of the bitmap. | bitmapTestBit |
R5 | Eleven message types are known; a decoder keeps an unknown type as unknown. | clusterProcessPacket |
R6 | The first byte of message flags says: paused for a manual failover, vote even if the master is not failing, extensions understood. | clusterBuildMessageHdr |
R7 | A light header of 16 bytes, marked by bit 0x8000 of the type, names no sender: it is the connection's. | messageTypeSupportsLightHdr | Valkey 8.0
R8 | A light message goes only to nodes that say they read them; on a link without a known node it closes the link. | clusterProcessPacket | Valkey 8.0
R9 | A gossip entry is 104 bytes: what the sender believes of one other node, with times in whole seconds. | clusterSetGossipEntry |
R10 | A FAIL message carries the id of the node that failed. | clusterSendFail |
R11 | A PUBLISH message carries two lengths, the channel and the message. | clusterPropagatePublish |
R12 | An UPDATE message carries a config epoch, a node id and that node's slots. | clusterSendUpdate |
R13 | AUTH_REQUEST, AUTH_ACK and MFSTART have no body. | clusterSendFailoverAuth |
R14 | A MODULE message carries a module id, a length, a type and the module's bytes. | clusterSendModule |
R15 | Extensions follow the gossip entries, each with a length in multiples of 8 and a type; unknown types are skipped by length. | writePingExtensions |
R16 | Extensions are written only to nodes known to understand them; the shard id always, the others when set (Redis 7.0: only a host name, to anyone). | writePingExtensions |
R17 | A receiver closes the link when signature or length cannot be right, and takes one message at a time. | clusterReadHandler |
R18 | A message of the wrong version or of a length that does not fit its type is dropped unseen, and the link stays. | clusterIsValidPacket |
R19 | Nothing on the bus is authenticated, and any PONG answers the pending PING. | clusterProcessPacket |
R20 | Sixteen flag bits tell a node's role, its health and what it understands. | clusterNode.flags |
R21 | A node keeps for each other node: identity, address, role, slots, epoch, links, ping times and failure reports. | clusterNode |
R22 | A node keeps of itself: epochs, its last vote, the cluster state, open slots, its election and its manual failover. | clusterState |
R23 | A master is a target of replica migration once it has, or had, replicas, or gets its first slot where others have replicas. | clusterNodeAddReplica |
R24 | Deleting a node unassigns its slots, closes its links and drops the failure reports that it made. | clusterDelNode |
R25 | The greatest epoch is that of the cluster or of any node, whichever is greater. | clusterGetMaxEpoch |
R26 | The sender is the node of the link if it is past its handshake, else the node with the header's id. | getNodeFromLinkAndMsg |
R27 | Each node opens one connection to every other; PONG answers on the same connection, all else goes out on one's own. | clusterCron |
R28 | The cluster cron runs every 100 ms: connections, a random ping, timeouts, failovers, migration, state. | clusterCron |
R29 | A handshake that is older than T, and than a second, is dropped; a node without connection is tried again at every cron. | clusterNodeCronHandleReconnect |
R30 | A new connection begins with MEET or PING, and a reconnect keeps the time of the ping that is still unanswered. | clusterLinkConnectHandler |
R31 | Once a second the node of five drawn by chance that was heard the longest ago is pinged. | clusterCron |
R32 | A node that was not heard for half of T is pinged. | clusterCron |
R33 | A PING on one's own connection sets the time from which the answer is waited for; MEET and PONG do not. | clusterSendPing |
R34 | From a crash to PFAIL it takes T to 1.5 T. | clusterCron |
R35 | A connection older than T with a ping unanswered for T/2 and nothing received is closed and opened again. | clusterCron |
R37 | Any valid message of a known sender counts as data received. | clusterProcessPacket |
R38 | A ping gossips about a tenth of the nodes, at least three, at most all others. | clusterSendPing |
R39 | Gossip entries are drawn by chance; the receiver, doubted nodes, handshakes and nodes without address are skipped. | clusterSendPing |
R40 | All nodes that were PFAIL at the last cron are appended to the gossip of every ping. | clusterSendPing |
R41 | PONG is built as PING is; it answers PING and MEET, and is broadcast when the sender's configuration changed. | clusterBroadcastPong |
R42 | A gossip section with a malformed node id is ignored whole. | clusterProcessGossipSection | Redis 7.2, Valkey 8.0
R43 | What gossip says about a known node is taken as a failure report or as its withdrawal. | clusterProcessGossipSection |
R44 | A healthy entry may carry on the time at which a node was last heard, if we wait for no answer and have no reports. | clusterProcessGossipSection |
R45 | The address of a node that we hold failing is taken from a healthy gossip entry. | clusterProcessGossipSection |
R46 | An unknown node that a known one gossips about is added as it is, unless it was forgotten. | clusterProcessGossipSection |
R47 | What others gossip about ourselves is ignored. | clusterProcessGossipSection |
R48 | Every header of a known sender raises the current epoch, the sender's config epoch and its offset. | clusterProcessPacket |
R49 | A node learns its own address from the socket on which it was met. | clusterProcessPacket |
R50 | A ping is taken in this order: handshake, flags, address, pong, role, slots, UPDATE, collision, gossip, extensions. | clusterProcessPacket |
R51 | A voting master that gossips a node as PFAIL or FAIL reports its failure (Redis: any master). | clusterNodeAddFailureReport |
R52 | A healthy entry withdraws the report, and reports older than 2 T are dropped. | clusterNodeCleanupFailureReports |
R53 | A node is PFAIL when a ping is unanswered and nothing was received for longer than T; a PONG clears it. | clusterCron |
R54 | PFAIL becomes FAIL when a quorum of voting masters agrees, and everybody is told. | markNodeAsFailingIfNeeded |
R55 | A FAIL message of a known sender is believed at once. | clusterProcessPacket |
R55b | FAIL is cleared by a PONG: of a replica or empty master at once, of a master with slots after 2 T. | clearNodeFailureIfNeeded |
R55c | PFAIL is a private belief that travels only in gossip. | markNodeAsFailingIfNeeded |
R56 | CLUSTER MEET makes a node of a random id in handshake; who is met by a stranger does the same. | clusterStartHandshake |
R57 | The first answer on a handshake's connection gives the node its real id, or ends the handshake if the id is known. | clusterProcessPacket |
R58 | Where another id answers, the node loses its address (from Valkey 8.1 on it is marked FAIL, too). | clusterProcessPacket |
R59 | Nodes in handshake live for T, at least a second; they are neither gossiped nor told. | clusterNodeCronHandleReconnect |
R60 | A node that is known but never connects to us is met again. | clusterNodeCronHandleReconnect | Valkey 8.1
R61 | A forgotten node stays out for a minute; from Redis 7.2 on the others are told to forget it, too. | clusterBlacklistAddNode |
R62 | A PING from another address than the known one changes the address. | nodeUpdateAddressIfNeeded |
R63 | A header without master says that its sender is a master. | clusterSetNodeAsPrimary |
R64 | A known master whose header names a master has become a replica; what becomes of its slots depends on the version. | clusterProcessPacket |
R65 | A replica that names another master moves to it, and takes on its shard id. | clusterProcessPacket |
R66 | Who follows a replica follows that replica's master instead. | clusterProcessPacket |
R67 | Becoming a replica needs no slots of one's own, ends a manual failover and starts replication. | clusterSetPrimary |
R68 | In each node's table a slot has one owner at most. | clusterAddSlot |
R69 | Slot claims are looked at when the sender's bitmap differs from what is known of it. | clusterProcessPacket |
R70 | A claimed slot goes to the claimant if it has no owner, its owner no longer claims it, or its owner's epoch is smaller. | clusterUpdateSlotsConfigWith |
R71 | A slot that its owner no longer claims stays its own until somebody else claims it. | clusterUpdateSlotsConfigWith |
R72 | Open slots follow a failover of the other side (Valkey). | clusterUpdateSlotsConfigWith | Valkey 8.0
R73 | Who lost its last slot, or whose master did, follows the master that took it; a replica of an empty master follows its successor. | clusterUpdateSlotsConfigWith |
R74 | Keys of slots that were lost are deleted. | clusterUpdateSlotsConfigWith |
R75 | Config epochs belong to nodes, not to slots. | clusterUpdateSlotsConfigWith |
R76 | Who claims a slot of an owner with a greater epoch is sent an UPDATE. | clusterProcessPacket |
R77 | An UPDATE holds the owner's id, epoch and claimed slots. | clusterSendUpdate |
R78 | An UPDATE with a greater epoch than the known one is taken as that owner's own claim. | clusterProcessPacket |
R79 | A node that has not the greatest epoch may take the next one without asking anybody. | clusterBumpConfigEpochWithoutConsensus |
R80 | Of two masters with one config epoch the one with the smaller id takes a new one. | clusterHandleConfigEpochCollision |
R81 | CLUSTER SET-CONFIG-EPOCH works on a node that knows nobody and has epoch 0. | clusterCommandSpecial |
R82 | CLUSTER RESET forgets all nodes and slots; HARD also the epochs and the id. | clusterReset |
R83 | Replicas look at every cron whether to stand for election. | clusterHandleReplicaFailover |
R84 | A replica stands when its master is FAIL or is to be replaced by order, unless it is told never to. | clusterHandleReplicaFailover |
R85 | A replica whose data is older than the validity factor allows does not stand. | clusterHandleReplicaFailover |
R86 | An election waits half a second, a random part and a second for each rank (from Valkey 9.0 on scaled to T). | clusterHandleReplicaFailover |
R87 | A replica's rank is the number of its siblings that have a greater offset. | clusterGetReplicaRank |
R88 | While an election waits, a changed rank moves it. | clusterHandleReplicaFailover |
R89 | When its time has come a candidate takes the next epoch and asks everybody for a vote. | clusterHandleReplicaFailover |
R89b | Shards that fail together stand for election one after another. | clusterGetFailedPrimaryRank | Valkey 8.1
R90 | A voting master votes once an epoch, for a replica of a master that it holds FAIL and whose slot claims are not older. | clusterSendFailoverAuthIfNeeded |
R91 | A vote that is refused is told in the voter's log only, with the reason. | clusterSendFailoverAuthIfNeeded |
R92 | A candidate counts the votes of voting masters for its epoch or a later one. | clusterProcessPacket |
R93 | With the votes of a quorum a candidate takes its master's place and slots under the epoch of the election. | clusterFailoverReplaceYourPrimary |
R94 | Losers learn of the winner by its PONG and follow it. | clusterProcessPacket |
R95 | Epochs and votes are on disk before the message that rests on them leaves. | clusterSaveConfigOrDie |
R96 | A vote is spent for the whole cluster: shards that stand in one epoch split the votes. | clusterSendFailoverAuthIfNeeded |
R97 | CLUSTER FAILOVER asks the master to pause; FORCE does not ask the master, TAKEOVER asks nobody. | clusterCommandSpecial |
R98 | A master that is asked for a manual failover pauses its clients and says so in every header. | clusterProcessPacket |
R99 | A manual failover's election begins when the replica has read up to the paused master's offset. | clusterHandleManualFailover |
R100 | A manual failover that is not done in five seconds is given up. | manualFailoverCheckTimeout |
R101 | A master paused for a manual failover sends no replication pings. | replicationCron |
R102 | A manual failover is MFSTART, paused headers, requests, votes and a PONG with the new epoch. | clusterHandleManualFailover |
R103 | A replica thinks of moving when a master has lost all its working replicas and its own master has the most. | clusterCron |
R104 | Of the replicas that could move the one with the smallest id does, if enough stay behind. | clusterHandleReplicaMigration |
R105 | A replica moves to a master that was orphaned for five seconds. | clusterHandleReplicaMigration |
R106 | A master that just started waits two seconds before it takes the cluster for healthy. | clusterUpdateState |
R107 | With full coverage required, a slot without a working owner takes the cluster down. | clusterUpdateState |
R108 | A node that reaches no majority of the voting masters holds the cluster down. | clusterUpdateState |
R109 | A master that comes back from a minority waits T, at most five seconds, before it serves again. | clusterUpdateState |
R110 | The cluster's state is looked at before sleep, in the cron and after a win. | clusterUpdateState |
R111 | A master in a minority takes writes for about T; they are lost when it comes back as a replica. | clusterUpdateState |
R112 | A key's slot is its CRC16 (XMODEM) modulo 16384. | keyHashSlot |
R113 | Only what stands between the first { and the next } is hashed, if anything does. | keyHashSlot |
R114 | Commands with keys are checked for redirection; those without run where they are. | getNodeByQuery |
R115 | All keys of a command must be of one slot. | getNodeByQuery |
R116 | A slot is migrating for its owner and importing for its target. | getNodeByQuery |
R117 | In an open slot the missing and the existing keys of the command are counted. | getNodeByQuery |
R118 | A cluster that is down refuses, unless reads are allowed. | getNodeByQuery |
R119 | In an open slot: ASK for keys that have gone, TRYAGAIN for some of several; otherwise serve or MOVED. | getNodeByQuery |
R120 | MOVED and ASK name slot and endpoint, as the preferred endpoint type says. | clusterRedirectClient |
R121 | ASKING holds for one command, READONLY until READWRITE. | getNodeByQuery |
R122 | A client that is blocked on a key is told when its slot moves or the cluster goes down. | clusterRedirectBlockedClientIfNeeded |
R123 | SETSLOT MIGRATING is for owners, IMPORTING for others, STABLE closes, NODE assigns. | clusterParseSetSlotCommand |
R124 | SETSLOT NODE to the importer gives it a new epoch; who gives away its last slot becomes a replica. | clusterCommandSetSlot |
R125 | SETSLOT runs on the replicas before it runs on the master. | clusterCommandSetSlot | Valkey 8.0
R126 | Keys in slots of somebody else are marked as importing at start (Valkey: deleted). | verifyClusterConfigWithData |
R127 | Atomic slot migration shows on the bus only as a new epoch and a PONG to all. | clusterCommandMigrateSlots | Valkey 9.0
R128 | A line of CLUSTER NODES is id, address, flags, master, times, epoch, link and slots. | clusterGenNodeDescription |
R129 | nodes.conf holds the same lines and the epochs. | clusterLoadConfig |
R130 | CLUSTER INFO holds the state, slot and node counts, epochs and message counters. | genClusterInfoString |
R131 | CLUSTER SHARDS says fail, loading or online; CLUSTER SLOTS leaves out replicas that failed or have no data. | clusterGenNodesSlotsInfo |
R132 | Valkey 8.1 staggers shards' elections, resets them on newer epochs and lets votes follow without spacing. | clusterHandleReplicaFailover | Valkey 8.1
R133 | Valkey 9.0 scales election delays to T and keeps failure reports by the second. | clusterHandleReplicaFailover | Valkey 9.0
R134 | The best replica stands without delay once all its siblings say that they see the master failed. | clusterHandleReplicaFailover | Valkey 9.1
R135 | Valkey 9.1 leaves the mark `my master failed` on a replica that was promoted. | clusterFailoverReplaceYourPrimary | Valkey 9.1
R136 | Versions after 9.1 may refuse votes by message and may speak another protocol on the bus. | clusterReadHandler | after Valkey 9.1
R160 | Log lines of the servers tell beliefs, votes, refusals and elections in fixed words. | serverLog |
R161 | Epochs of one node never go back on one connection, and a config epoch is at most the current one. | clusterBuildMessageHdr |
R162 | A node votes once in an epoch. | clusterSendFailoverAuthIfNeeded |
R163 | An epoch has one winner. | clusterHandleReplicaFailover |
R164 | A win rests on the votes of a quorum. | clusterHandleReplicaFailover |
R165 | A FAIL rests on the sender's own PFAIL and on enough reports of the last 2 T. | markNodeAsFailingIfNeeded |
R166 | Two masters that claim one slot are told apart by epoch, and the smaller loses. | clusterUpdateSlotsConfigWith |
R167 | A header's flags hold one role, and never say of the sender that it is failing. | clusterBuildMessageHdr |
R168 | A replica's header shows its master's epoch and slots. | clusterBuildMessageHdr |
R169 | A master's offset does not go back within a replication id. | clusterBuildMessageHdr |
R170 | The next cron is due 100 ms after the end of the last. | clusterCron |
R171 | Pings of one cron are built before any answer to them is read. | clusterCron |
R172 | A ping is 2256 bytes and 104 for each node that it gossips about, plus extensions. | clusterSendPing |
R173 | Each decision that a node failed is told to all nodes, and several may decide at once. | clusterSendFail |
R174 | What servers draw by chance a simulation draws from its seed. | clusterHandleReplicaFailover |
R175 | Times in gossip are other nodes' clocks, trusted up to half a second ahead. | clusterProcessGossipSection |
"""

_REPLICATION: Final = """
P1 | Replication state is an id, an offset, the id before it with the offset up to which that holds, and a backlog. | shiftReplicationId |
P2 | A replica asks to go on from its offset plus one, or for everything. | replicaTryPartialResynchronization |
P3 | A master goes on where id and offset are known and its backlog still holds what is missing; else all data is sent. | primaryTryPartialResynchronization |
P4 | A replica that is told a new id when it goes on keeps the old one as its second. | replicaTryPartialResynchronization |
P5 | A promoted replica takes a new id and keeps the old one up to its offset. | shiftReplicationId |
P6 | A master that becomes a replica tries to go on from its own id, which works if it wrote nothing that the winner lacks. | replicationCachePrimaryUsingMyself |
P7 | A full resynchronisation replaces id, second id and backlog. | readSyncBulkPayload |
P8 | A backlog that is made anew, or freed, gives a new id. | freeReplicationBacklog |
P9 | Offsets count the bytes of the replication stream, its pings included. | replicationFeedReplicas |
P10 | Replicas acknowledge their offset each second; silence of repl-timeout ends the link. | replicationCron |
P11 | The offset in a replica's bus header is what it has processed. | replicationGetReplicaOffset |
"""

_SENTINEL: Final = """
S1 | A sentinel knows masters by name, their replicas by INFO and other sentinels by hello. | sentinelHandleDictOfRedisInstances |
S2 | PING goes out every second, INFO every ten, hello every two; a timer of 10 to 20 Hz drives all. | sentinelSendPeriodicCommands |
S3 | A hello is published: the sentinel's address, id and epoch, the master's name, address and config epoch. | sentinelSendHello |
S4 | A hello with a greater config epoch is adopted, and a new address is a switch of masters. | sentinelProcessHelloMessage |
S5 | PONG, LOADING and MASTERDOWN are valid answers to a ping. | sentinelPingReplyCallback |
S6 | An instance is subjectively down when it gave no valid answer for longer than down-after. | sentinelCheckSubjectivelyDown |
S7 | A master is objectively down when a quorum of sentinels holds it down. | sentinelCheckObjectivelyDown |
S8 | Sentinels are asked whether a master is down, and for their vote by the same question. | sentinelAskPrimaryStateToOtherSentinels |
S9 | A sentinel votes once an epoch, for the first that asks. | sentinelVoteLeader |
S10 | A failover is tried when the master is objectively down and none was tried for twice the failover timeout. | sentinelStartFailoverIfNeeded |
S11 | The leader needs a majority of the known sentinels, and at least the quorum. | sentinelGetLeader |
S12 | Who is not elected in ten seconds gives up. | sentinelFailoverWaitStart |
S13 | The replica to promote is connected, fresh, and the first by priority, offset and id. | sentinelSelectReplica |
S14 | A failover goes from promotion to reconfigured replicas to the new configuration. | sentinelFailoverStateMachine |
S15 | Only the leader acts; the others follow by hello, and an old master is made a replica. | sentinelFixReplicaConfig |
S16 | A timer that jumps puts a sentinel into TILT: it watches and does not act. | sentinelCheckTiltCondition |
S17 | One vote a master and epoch, one leader an epoch, and config epochs only grow. | sentinelVoteLeader |
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
