"""Replication between hosts, as far as failover depends on it (P1 to P11).

Modelled: ordered streams with network delay, offsets, backlog, partial and full resynchronization, chained replicas,
broken links. Not modelled: memory, disks, execution time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.node import events as ev
from cluster_core.replication.psync import may_continue
from cluster_core.sim.clock import US_PER_S
from cluster_core.sim.host import Host, retry_after_us
from cluster_core.sim.network import Driver, Network
from cluster_core.sim.servers.store import PING_BYTES, Write

REPL_TIMEOUT_US: Final = 60 * US_PER_S
"""`repl-timeout`."""
CRON_US: Final = US_PER_S
"""Interval at which a replica connects and checks its link (replicationCron)."""
FULL_SYNC_US: Final = 500_000
"""Minimum duration of a full resynchronization: fork, snapshot, transfer, loading."""
KEY_SYNC_US: Final = 20
"""Additional duration per key."""


class Feed:
    """Stream from *master* to *replica*; *heard_us* is the time of the last data."""

    __slots__ = ("acked", "arrival_us", "heard_us", "held", "held_us", "is_full", "is_up", "master", "replica")

    def __init__(self, replica: Host, master: Host, *, is_full: bool) -> None:
        self.replica, self.master, self.is_full = replica, master, is_full
        self.is_up = False
        self.arrival_us = self.heard_us = self.held_us = 0
        self.held: list[Write] | None = None
        self.acked = -1


class Waiter:
    """A client waiting until *count* replicas of *master* acknowledge *offset* (WAIT, P10)."""

    __slots__ = ("count", "master", "offset", "then")

    def __init__(self, master: Host, offset: int, count: int, then: Callable[[], None]) -> None:
        self.master, self.offset, self.count, self.then = master, offset, count, then


class Replication:
    """All streams between the hosts of *world*, over the paths of *network*."""

    def __init__(self, world: Driver, network: Network) -> None:
        self.world, self.network = world, network
        self.feeds: dict[int, Feed] = {}
        self.waiters: list[Waiter] = []
        self.on_promoted: Callable[[Host, Host | None], None] | None = None
        self.on_replaced: Callable[[Host], None] | None = None

    def start(self, host: Host) -> None:
        """Handle a process start."""
        self.world.call_at(self.world.now_us + int(host.rng.random() * CRON_US), self._cron, host, host.life)

    def followers(self, master: Host) -> list[Feed]:
        """Return the open streams of *master*."""
        return [feed for feed in self.feeds.values() if feed.master is master and feed.is_up]

    # -- connecting ----------------------------------------------------------------------------------------------

    def follow(self, host: Host, effect: ev.StartReplication) -> None:
        """Start to replicate another host (R67, P2, P6)."""
        master = self.network.by_address.get((effect.ip, effect.port))
        self._drop_followers(host)
        self.feeds.pop(host.index, None)
        if master is None or master is host:
            return
        feed = self.feeds[host.index] = Feed(host, master, is_full=effect.full_sync)
        self._connect(feed)

    def promote(self, host: Host) -> None:
        """Become a master with the current data (R93, P5)."""
        feed = self.feeds.pop(host.index, None)
        if feed is not None:
            if self.on_promoted is not None:
                self.on_promoted(host, feed.master)
            host.store.shift()
        self._drop_followers(host)

    def crash(self, host: Host) -> None:
        """End the process of *host*; replicas notice when the FIN arrives."""
        self.feeds.pop(host.index, None)
        for feed in self.feeds.values():
            if feed.master is host and host.is_off:
                feed.held = None
            elif feed.master is host:
                path = self.network.path(host, feed.replica)
                if not path.is_blocked:
                    self.world.call_at(self.world.now_us + path.delay_us, self._lose, feed)

    def _is_current(self, feed: Feed) -> bool:
        return self.feeds.get(feed.replica.index) is feed

    def _reaches(self, feed: Feed) -> bool:
        path = self.network.path
        walls = path(feed.replica, feed.master).is_blocked or path(feed.master, feed.replica).is_blocked
        return feed.master.answers and not walls

    def _connect(self, feed: Feed, _: Any = None) -> None:
        """Request synchronization: partial, full, or a later retry (P2, P3)."""
        if not self._is_current(feed) or feed.is_up or not feed.replica.alive:
            return
        now_us = self.world.now_us
        round_us = 4 * self.network.path(feed.replica, feed.master).delay_us
        if not self._reaches(feed) or feed.replica.is_stopped or not self._is_served(feed):
            self.world.call_at(now_us + CRON_US, self._connect, feed)
        elif self._may_continue(feed):
            self.world.call_at(now_us + round_us, self._continue, feed)
        else:
            keys = sum(len(keys) for keys in feed.master.store.held.values())
            wait_us = round_us + FULL_SYNC_US + keys * KEY_SYNC_US
            self.world.call_at(now_us + wait_us, self._copy, feed)

    def _is_served(self, feed: Feed) -> bool:
        """Return whether the master answers PSYNC: a replica without a link to its own master refuses."""
        upstream = self.feeds.get(feed.master.index)
        return upstream is None or upstream.is_up

    def _may_continue(self, feed: Feed) -> bool:
        replica, master = feed.replica.store, feed.master.store
        return not feed.is_full and may_continue(master.lineage, master.window, replica.replid, replica.offset + 1)

    def _continue(self, feed: Feed, _: Any = None) -> None:
        """Apply a partial resynchronization from the backlog (P3)."""
        is_possible = self._is_current(feed) and self._reaches(feed) and self._is_served(feed)
        if not is_possible or not self._may_continue(feed):
            self._connect(feed)
            return
        replica, master = feed.replica.store, feed.master.store
        replica.lineage.adopt(master.replid)
        missed = master.since(replica.offset)
        self._up(feed)
        for write in missed:
            self._send(feed, write)

    def _copy(self, feed: Feed, _: Any = None) -> None:
        """Finish a full resynchronization with the master's data (P7)."""
        if not self._is_current(feed) or not self._reaches(feed) or not feed.replica.answers:
            self._connect(feed)
            return
        if self.on_replaced is not None:
            self.on_replaced(feed.replica)
        feed.replica.store.copy_from(feed.master.store)
        feed.is_full = False
        self._up(feed)

    def _up(self, feed: Feed) -> None:
        feed.is_up, feed.heard_us, feed.held = True, self.world.now_us, None
        feed.acked = feed.replica.store.offset
        self.world.tell(feed.replica, ev.ReplicationUp())
        self.world.tell(feed.replica, ev.ReplicationOffset(feed.replica.store.offset))

    def _lose(self, feed: Feed, _: Any = None) -> None:
        """Handle a broken master link."""
        if not self._is_current(feed) or not feed.is_up:
            return
        feed.is_up, feed.held = False, None
        self._drop_followers(feed.replica)
        self.world.tell(feed.replica, ev.ReplicationDown())
        self.world.call_at(self.world.now_us + CRON_US, self._connect, feed)

    def _drop_followers(self, host: Host) -> None:
        for feed in self.followers(host):
            self.world.call_at(self.world.now_us, self._lose, feed)

    def _cron(self, host: Host, life: int) -> None:
        """Run every second: PINGs to replicas, timeout of a silent master (P9, P10)."""
        world = self.world
        if host.life != life or not host.alive:
            return
        feed = self.feeds.get(host.index)
        if feed is not None and feed.is_up and world.now_us - feed.heard_us > REPL_TIMEOUT_US:
            self._lose(feed)
        period_us = host.settings.repl_ping_period_s * US_PER_S
        due = world.now_us // period_us != (world.now_us - CRON_US) // period_us
        if feed is None and due and not host.is_stopped and not host.node.view.mf_end_ms and self.followers(host):
            self.write(host, b"", None, PING_BYTES)
        world.call_at(world.now_us + CRON_US, self._cron, host, life)

    # -- the stream ----------------------------------------------------------------------------------------------

    def write(self, host: Host, key: bytes, value: bytes | None, size: int) -> None:
        """Apply a write on a master and stream it to replicas."""
        write = host.store.append(key, value, size)
        self.world.call_at(self.world.now_us, self._tell_offset, host, host.life)
        for feed in self.followers(host):
            self._send(feed, write)

    def _tell_offset(self, host: Host, life: int) -> None:
        if host.life == life:
            self.world.tell(host, ev.ReplicationOffset(host.store.offset))

    def _send(self, feed: Feed, write: Write) -> None:
        path = self.network.path(feed.master, feed.replica)
        if path.is_blocked or feed.held is not None:
            if feed.held is None:
                feed.held, feed.held_us = [], self.world.now_us
            feed.held.append(write)
            return
        at_us = self.world.now_us + path.travel_us(self.network.rng)
        feed.arrival_us = at_us = max(at_us, feed.arrival_us)
        self.world.call_at(at_us, self._apply, feed, write)

    def _apply(self, feed: Feed, write: Write) -> None:
        replica = feed.replica
        if not self._is_current(feed) or not feed.is_up or write.offset <= replica.store.offset:
            return
        if replica.is_stopped:
            if feed.held is None:
                feed.held, feed.held_us = [], self.world.now_us
            feed.held.append(write)
            return
        replica.store.apply(write)
        feed.heard_us = self.world.now_us
        self.world.tell(replica, ev.ReplicationOffset(write.offset))
        for follower in self.followers(replica):
            self._send(follower, write)
        path = self.network.path(replica, feed.master)
        if self.waiters and not path.is_blocked:
            self.world.call_at(self.world.now_us + path.delay_us, self._ack, feed, write.offset)

    def healed(self, source: Host, target: Host) -> None:
        """Resume streams after a block ended or *target* continued."""
        feed = self.feeds.get(target.index)
        if feed is not None and feed.master is source and feed.held is not None:
            wait_us = retry_after_us(self.world.now_us - feed.held_us)
            self.world.call_at(self.world.now_us + wait_us, self._release, feed)

    def _release(self, feed: Feed, _: Any = None) -> None:
        path = self.network.path(feed.master, feed.replica)
        if not self._is_current(feed) or feed.held is None or path.is_blocked or feed.replica.is_stopped:
            return
        held, feed.held = feed.held, None
        for write in held:
            self._send(feed, write)

    # -- WAIT ----------------------------------------------------------------------------------------------------

    def wait(self, master: Host, count: int, then: Callable[[], None]) -> None:
        """Call *then* once *count* replicas have *master*'s current offset (WAIT)."""
        self.waiters.append(Waiter(master, master.store.offset, count, then))
        self._look(master)

    def _ack(self, feed: Feed, offset: int) -> None:
        if self._is_current(feed):
            feed.acked = max(feed.acked, offset)
            self._look(feed.master)

    def _look(self, master: Host) -> None:
        done = []
        for waiter in self.waiters:
            acked = sum(feed.acked >= waiter.offset for feed in self.feeds.values() if feed.master is waiter.master)
            if waiter.master is master and acked >= waiter.count:
                done.append(waiter)
        self.waiters = [waiter for waiter in self.waiters if waiter not in done]
        for waiter in done:
            waiter.then()
