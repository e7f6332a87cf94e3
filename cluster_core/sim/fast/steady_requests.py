"""What the compiled loop asks the plain machine for: each function handles one event, or a part of one, and lets the loop go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster_core.gossip.failure_detection import doubt_if_silent
from cluster_core.node import cron
from cluster_core.node.agenda import put_back
from cluster_core.node.events import SendMessage
from cluster_core.node.links import open_link, recycle_link
from cluster_core.node.reactions import react
from cluster_core.sim.fast import gossip_fields as at

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect
    from cluster_core.gossip.view import Peer
    from cluster_core.node.state import NodeState
    from cluster_core.sim.fast.steady import Steady
    from cluster_core.sim.host import Host

NEVER: Final = 1 << 62


def in_hand(steady: Steady) -> tuple[int, Host, NodeState]:
    row = steady.store.control[at.ROW]
    host = steady.hosts[row]
    state = host.node.state
    state.now_ms = steady.world.wall_ms(host)
    return row, host, state


def peer_in_hand(steady: Steady, row: int) -> Peer:
    return steady.views[row].nodes[steady.ids[steady.store.control[at.PEER]]]


def carry_out(steady: Steady, row: int, host: Host, state: NodeState) -> None:
    if state.out:
        out, state.out = state.out, []
        steady.world.carry_out(host, out)
    steady.refresh(row)
    steady.refresh_touched()


def do_tick(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    state.agenda_nodes = 0
    steady.world._tick(host, host.life)
    steady.store.rows[at.SHIFT_US][row] = host.shift_us
    steady.refresh(row)
    steady.refresh_touched()


def do_deliver(steady: Steady) -> None:
    slot = steady.store.control[at.SLOT]
    m = steady.store.message(slot)
    message = steady.maker.make(slot)
    steady.maker.verdicts.pop(slot, None)
    steady.store.free(slot)
    way = steady.connections.carrier(m)
    if way is not None:
        steady.world.network._deliver(way, message)
        steady.touched[way.target.index] = None
    steady.refresh_touched()


def do_open(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    nodes, numbers = state.view.nodes, steady.store.scratch[at.LOST_LIST]
    lost = [nodes[steady.ids[numbers[k]]] for k in range(steady.store.control[at.LOST_COUNT])]
    if state.view.profile.reconnects_spread:
        lost = cron.spread(lost, cron.reconnect_budget(len(nodes), state.view.node_timeout_ms))
    for peer in lost:
        open_link(state, peer)
    carry_out(steady, row, host, state)


def do_close(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    peer = peer_in_hand(steady, row)
    link = peer.outbound
    recycle_link(state, peer)
    if peer.outbound == link:
        steady.store.wide[at.MADE][peer.cell] = NEVER  # type: ignore[attr-defined]  # of ArrayPeer
    carry_out(steady, row, host, state)


def do_look(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    peer = peer_in_hand(steady, row)
    add_changes(steady, cron._look_at(state, peer))
    put_back(state, peer, cron.next_look_ms(state, peer))
    carry_out(steady, row, host, state)


def do_doubt(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    add_changes(steady, doubt_if_silent(state.view, peer_in_hand(steady, row), state.now_ms))
    carry_out(steady, row, host, state)


def add_changes(steady: Steady, changes: list[Effect]) -> None:
    steady.changes += changes
    if changes:
        steady.store.control[at.CHANGED] = 2


def do_send(steady: Steady) -> None:
    row, host, _ = in_hand(steady)
    slot = steady.store.control[at.SLOT]
    m = steady.store.message(slot)
    cell = m[at.M_OPENER] * steady.nodes + m[at.M_ACCEPTOR]
    link = steady.store.narrow[at.FAR if m[at.M_BACK] else at.OUTBOUND][cell]
    steady.world.carry_out(host, [SendMessage(link, steady.taken(slot))])
    steady.refresh(row)


def do_react(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    changes, steady.changes = steady.changes, []
    state.changed()
    react(state, changes, None)
    steady.store.control[at.TOUCHED] = 1
    carry_out(steady, row, host, state)


def do_replica(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    cron.run_replica_cron(state)
    steady.store.control[at.TOUCHED] = 1
    carry_out(steady, row, host, state)


def do_sleep(steady: Steady) -> None:
    row, host, state = in_hand(steady)
    if state.todo or state.view.state_stale:
        host.node._before_sleep()
    carry_out(steady, row, host, state)


ANSWERS: Final[dict[int, Callable[[Steady], None]]] = {
    at.ASK_TICK: do_tick,
    at.ASK_DELIVER: do_deliver,
    at.ASK_OPEN: do_open,
    at.ASK_CLOSE: do_close,
    at.ASK_LOOK: do_look,
    at.ASK_DOUBT: do_doubt,
    at.ASK_SEND: do_send,
    at.ASK_REACT: do_react,
    at.ASK_REPLICA: do_replica,
    at.ASK_SLEEP: do_sleep,
}
