"""Client commands on data: execute, or redirect as a server does (R114 to R121)."""

from __future__ import annotations

from cluster_core.gossip.flags import REPLICA
from cluster_core.node.events import ClientCommand, Execute, Reply
from cluster_core.node.state import NodeState
from cluster_core.routing.redirect import DIALECTS, SERVE, Client, Endpoint, RoutingView, route
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.resp import RespError


def serve_client(state: NodeState, event: ClientCommand) -> None:
    """Let the driver execute a command, or reply with a redirection or an error."""
    view = state.view
    owners: dict[int, str] = {}
    for word in event.words[1:]:
        owner = view.owner_of(key_slot(word))
        if owner is not None:
            owners[key_slot(word)] = owner.id
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
    decision = route(routing, event.words, client=client, keys_here=state.keyspace.holds)
    if decision == SERVE:
        state.out.append(Execute(event.client, event.words))
    else:
        state.out.append(Reply(event.client, RespError(str(decision))))
