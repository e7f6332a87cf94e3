"""State machine of a whole node: events in, effects out (contract with its driver: docs/design/node.md).

`Node` passes messages to the gossip machine; the modules beside it act on view changes, time, clients and replication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from cluster_core.gossip import events as belief
from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.failure_detection import update_state
from cluster_core.gossip.flags import MASTER
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.prefilter import Prefilter
from cluster_core.node import events as ev
from cluster_core.node.candidacy import run_election
from cluster_core.node.config_file import SavedConfig, load_config
from cluster_core.node.cron import run_cron, run_replica_cron
from cluster_core.node.events import Effect, Event, SaveConfig
from cluster_core.node.links import answer_late_meet, link_lost, link_opened
from cluster_core.node.pings import broadcast_pong, build_ping
from cluster_core.node.promotion import check_offset
from cluster_core.node.reactions import react
from cluster_core.node.state import (
    TODO_FAILOVER,
    TODO_FSYNC,
    TODO_MANUAL,
    TODO_PONG,
    TODO_SAVE,
    Keyspace,
    NodeSettings,
    NodeState,
    NoKeys,
    random_id,
)
from cluster_core.wire.bus import Message, MessageType

if TYPE_CHECKING:
    from random import Random
from cluster_core.gossip.flags import REPLICA
from cluster_core.node.events import ClientCommand, Execute, Reply
from cluster_core.routing.redirect import DIALECTS, SERVE, Client, Endpoint, RoutingView, route
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)
MEET: Final = int(MessageType.MEET)
PUBLISHSHARD: Final = int(MessageType.PUBLISHSHARD)
STEPS_MAX: Final = 4
"""Maximum election steps per event: scheduled, asked, won."""


class Node:
    """One cluster node; effects of the start are returned with those of the first event.

    *rng* is the only randomness (R174) and draws node and shard id unless given. *config* is a nodes.conf to load.
    *keyspace* answers queries about the data.
    """

    def __init__(
        self,
        settings: NodeSettings,
        rng: Random,
        now_ms: int,
        *,
        my_id: str = "",
        shard_id: str = "",
        config: SavedConfig | None = None,
        keyspace: Keyspace | None = None,
    ) -> None:
        profile = settings.profile
        beliefs = ClusterNode(my_id or random_id(rng), profile, settings.node_timeout_ms, now_ms)
        self.state = state = NodeState(Prefilter(beliefs), settings, rng, keyspace or NoKeys(), now_ms)
        view = self.view = state.view
        myself = view.myself
        myself.flags |= profile.capabilities
        myself.port, myself.cport = settings.port, settings.bus_port
        myself.hostname, myself.nodename = settings.hostname, settings.nodename
        myself.shard_id = shard_id or random_id(rng)
        view.replica_migration_allowed = settings.allow_replica_migration
        view.full_coverage_required = settings.require_full_coverage
        view.name_handshake = lambda: random_id(rng)  # R56: random id of a node without one
        beliefs.build_pong = self._build_pong
        if config is not None:
            load_config(state, config)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Apply *event* at *now_ms* (wall clock, ms) and return the effects in execution order."""
        state = self.state
        state.now_ms = now_ms
        if type(event) is MessageReceived:
            self._on_message(event)
        else:
            self._follow(event)
        if state.todo or self.view.state_stale:
            self._before_sleep()
        out = state.out
        if out:
            state.out = []
        return out

    def _follow(self, event: Event) -> None:
        match event:
            case MessageReceived():
                self._on_message(event)
            case belief.Tick():
                self._on_tick()
            case belief.LinkAccepted():
                self._on_accepted(event)
            case belief.LinkClosed():
                link_lost(self.state, event.link)
            case ev.LinkOpened():
                link_opened(self.state, event.link)
            case ev.ReplicationUp():
                self.state.repl_up, self.state.repl_heard_ms = True, self.state.now_ms
            case ev.ReplicationDown():
                if self.state.repl_up:
                    self.state.repl_up, self.state.repl_down_ms = False, self.state.now_ms
            case ev.ReplicationOffset():
                self._on_offset(event)
            case ev.ClientCommand():
                serve_client(self.state, event)
            case ev.Change():
                event.apply(self.state)
            case _:
                assert_never(event)

    # -- the bus -------------------------------------------------------------------------------------------------

    def _on_message(self, event: MessageReceived) -> None:
        state, view, message = self.state, self.view, event.message
        link = view.links.get(event.link)
        if link is None:
            return
        kind = message.header.type
        if kind <= PUBLISHSHARD:
            state.received[kind] += 1
        if kind == MEET or (kind == PING and not view.myself.ip):
            self._learn_own_ip(link.local_ip)
        changes = state.beliefs.handle(event, state.now_ms)
        if changes:
            react(state, changes, event)
        if kind == MEET and view.profile.meets_again:
            answer_late_meet(state, message.sender)

    def _learn_own_ip(self, ip: str) -> None:
        """Learn our address from a MEET (R49)."""
        myself = self.view.myself
        if ip and myself.ip != ip:
            myself.ip = ip
            self.state.log("*", f"IP address for this node updated to {ip}")
            self.state.todo |= TODO_SAVE

    def _on_accepted(self, event: belief.LinkAccepted) -> None:
        state = self.state
        react(state, state.beliefs.handle(event, state.now_ms), None)
        if event.link not in self.view.links:
            state.out.append(belief.CloseLink(event.link))

    # -- time, replication, clients ------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        state = self.state
        changes = run_cron(state)
        if changes:
            state.changed()
            react(state, changes, None)
        if self.view.mf_end_ms or not self.view.myself.flags & MASTER:
            run_replica_cron(state)

    def _on_offset(self, event: ev.ReplicationOffset) -> None:
        state = self.state
        state.offset = self.view.myself.repl_offset = event.offset
        if not self.view.myself.flags & MASTER:
            state.repl_heard_ms = state.now_ms
            if self.view.mf_end_ms:
                state.todo |= TODO_MANUAL

    # -- after an event ------------------------------------------------------------------------------------------

    def _before_sleep(self) -> None:
        """Run deferred work: election, state, PONGs, nodes.conf (R110, clusterBeforeSleep)."""
        state, view = self.state, self.view
        for _ in range(STEPS_MAX):
            if state.todo & TODO_MANUAL:
                check_offset(state)
            if not state.todo & TODO_FAILOVER:
                break
            run_election(state)
        if view.state_stale:
            react(state, update_state(view, state.now_ms), None)
        if state.todo & TODO_PONG:
            broadcast_pong(state)
        if state.todo & TODO_SAVE:
            state.out.insert(0, SaveConfig(bool(state.todo & TODO_FSYNC)))
        state.todo = 0

    def _build_pong(self, link_id: int) -> Message:
        """Build the PONG for the PING or MEET being read, before the message changes the view (R41)."""
        link = self.view.links.get(link_id)
        peer = self.view.nodes.get(link.node) if link is not None and link.node is not None else None
        return build_ping(self.state, PONG, peer)


def serve_client(state: NodeState, event: ClientCommand) -> None:
    """Let the driver execute a command, or reply with a redirection or an error."""
    view = state.view
    owners: dict[int, str] = {}
    for argument in event.arguments[1:]:
        owner = view.owner_of(key_slot(argument))
        if owner is not None:
            owners[key_slot(argument)] = owner.id
    named = {*owners.values(), *view.migrating.values()} & view.nodes.keys()
    peers = {node_id: view.nodes[node_id] for node_id in named}
    routing = RoutingView(
        view.myself.id,
        owners,
        {node_id: Endpoint(peer.ip, peer.port, peer.hostname) for node_id, peer in peers.items()},
        view.myself.replicaof if view.myself.flags & REPLICA else "",
        view.ok,
        view.migrating,
        view.importing,
        DIALECTS[view.profile.routing_table],
    )
    client = Client(asking=event.asking)
    decision = route(routing, event.arguments, client=client, keys_here=state.keyspace.holds)
    if decision == SERVE:
        state.out.append(Execute(event.client, event.arguments))
    else:
        state.out.append(Reply(event.client, RespError(str(decision))))
