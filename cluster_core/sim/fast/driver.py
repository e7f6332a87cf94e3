"""The run: the compiled loop goes on until it asks for the plain machine, which handles one event, or a part of one."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip.failure_detection import doubt_if_silent
from cluster_core.node import cron
from cluster_core.node.agenda import put_back
from cluster_core.node.events import SendMessage
from cluster_core.node.links import open_link, recycle_link
from cluster_core.node.reactions import react
from cluster_core.sim.clock import collector_at_rest
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.steady import LIFE_SHIFT, Steady
from cluster_core.sim.network import Network
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect
    from cluster_core.gossip.view import Peer
    from cluster_core.node.state import NodeState
    from cluster_core.sim.host import Host

NEVER: Final = 1 << 62
NO_SPARES: Final = (0, 0, 0)
FIRST: Final = 0
"""The order of an event that was in hand already."""


def run_to(steady: Steady, end_us: int, *, is_first: bool = True) -> None:
    """Let time pass until *end_us*, as `World.run_to` does; if it is the *first* time since somebody may have done something to hosts."""
    if is_first:
        steady.refresh_hosts()
    with collector_at_rest():
        _run_to(steady, end_us)
    steady.world.now_us = end_us


def _run_to(steady: Steady, end_us: int) -> None:
    world, store, heap = steady.world, steady.store, steady.world.heap
    listeners = steady.listeners = [watch for watch in world.senders if watch not in steady.book.listeners]
    store.control[at.STEPS] = bool(listeners)
    while True:
        limit_us, limit_order = heap[0][:2] if heap else (NEVER, NEVER)
        if not store.has_before(limit_us, limit_order):
            if limit_us > end_us:
                break
            world.now_us, order, action, first, second = heappop(heap)
            _act(steady, order, action, first, second)
            if listeners:
                _tell(steady, listeners)
            continue
        steady.enter()
        asked = store.run(end_us, limit_us, limit_order)
        now_us = store.control[at.NOW]
        steady.leave()
        if listeners:
            world.now_us = now_us
            _tell(steady, listeners)
        if asked == at.LIMIT:
            if limit_us > end_us:
                break
        elif asked == at.ASK_GROW:
            store.grow()
        elif asked not in (at.STEPPED, at.ASK_FLUSH):
            world.now_us = now_us
            ANSWERS[asked](steady)


def _tell(steady: Steady, listeners: list[Callable[[Host, SendMessage], None]]) -> None:
    """Somebody listens to each message."""
    control = steady.store.control
    for k in range(control[at.SENT_COUNT]):
        slot = steady.store.scratch[at.SENT_LIST][k]
        m = steady.store.message(slot)
        cell = m[at.M_OPENER] * steady.nodes + m[at.M_ACCEPTOR]
        sender, link = (m[at.M_ACCEPTOR], at.FAR) if m[at.M_BACK] else (m[at.M_OPENER], at.NEAR)
        effect = SendMessage(steady.store.narrow[link][cell], steady.maker.make(slot))
        for watch in listeners:
            watch(steady.hosts[sender], effect)
    control[at.SENT_COUNT] = 0


def _act(steady: Steady, order: int, action: Any, first: Any, second: Any) -> None:
    """Do what the plain world had planned, but leave ticks to the loop."""
    actor = getattr(action, "__self__", None)
    world = steady.world
    if actor is world and action.__func__ is World._tick:
        steady.store.place(world.now_us, order, -1 - steady.row_of[first.index] - (second << LIFE_SHIFT))
        return
    action(first, second)
    if actor is world.network:
        if action.__func__ is Network._deliver:
            steady.touched[first.target.index] = None
    elif actor is not world.replication:
        steady.refresh_hosts()
    steady.refresh_touched()


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
    steady.refresh(row)
    rows = steady.store.rows
    if rows[at.HOT][row] and rows[at.RUNS][row] == at.RUNNING:  # since an event that is not followed up
        steady.store.place(steady.world.now_us, FIRST, -1 - row - (host.life << LIFE_SHIFT))
        return
    state.agenda_nodes = 0
    steady.world._tick(host, host.life)
    rows[at.SHIFT_US][row] = host.shift_us
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
    steady.world.carry_out(host, [SendMessage(link, steady.maker.take(slot))])
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
    if not steady.store.may_be_spare(row):
        state.orphans, state.orphans_version = NO_SPARES, state.view.version
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
