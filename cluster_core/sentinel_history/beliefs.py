"""A sentinel's view of its instances as rows: one per instance and period without a visible change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cluster_core.kinds import Source
from cluster_core.sentinel.instance import FailoverState, Flag, Instance, flag_text

KINDS = {Flag.MASTER: "master", Flag.REPLICA: "replica", Flag.SENTINEL: "sentinel"}
ROLES = {Flag.MASTER: "master", Flag.REPLICA: "slave"}


class Belief(NamedTuple):
    """Fields of SENTINEL MASTERS, REPLICAS or SENTINELS for one instance; empty or None if not shown."""

    kind: str
    master: str
    name: str
    ip: str
    port: int
    runid: str
    flags: str
    role_reported: str
    config_epoch: int | None
    failover_state: str
    master_host: str
    master_port: int | None
    master_link: str
    leader: str
    leader_epoch: int | None
    quorum: int | None

    @property
    def key(self) -> tuple[str, str, str]:
        """Return the key of the instance."""
        return self.kind, self.master, self.name


class Span(NamedTuple):
    """A view with its period; *cause* and *source* are the evidence; *to_ns* is None while valid."""

    observer: str
    belief: Belief
    from_ns: int
    to_ns: int | None
    cause: str
    source: Source


def family_of(master: Instance) -> list[Instance]:
    """Return a master, its replicas and its sentinels."""
    return [master, *master.replicas.values(), *master.sentinels.values()]


def shown_family(master: Instance) -> Iterable[Instance]:
    """Return the same without unannounced replicas, which no reply shows."""
    yield master
    yield from (replica for replica in master.replicas.values() if replica.is_announced)
    yield from master.sentinels.values()


def belief_of(instance: Instance, flags: str | None = None) -> Belief:
    """Return the view of a record; *flags* replaces its own."""
    is_master, is_replica = bool(instance.flags & Flag.MASTER), bool(instance.flags & Flag.REPLICA)
    is_sentinel = bool(instance.flags & Flag.SENTINEL)
    state = instance.failover_state
    return Belief(
        KINDS[instance.flags & (Flag.MASTER | Flag.REPLICA | Flag.SENTINEL)],
        instance.name if instance.master is None else instance.master.name,
        instance.name,
        instance.address.ip,
        instance.address.port,
        instance.runid,
        flag_text(instance.shown_flags) if flags is None else flags,
        "" if is_sentinel else ROLES.get(instance.role_reported, "slave"),
        instance.config_epoch if is_master else None,
        state.word if is_master and state is not FailoverState.NONE else "",
        (instance.master_host or "?") if is_replica else "",
        instance.master_port if is_replica else None,
        ("ok" if instance.is_master_link_up else "err") if is_replica else "",
        (instance.leader or "?") if is_sentinel else "",
        instance.leader_epoch if is_sentinel else None,
        instance.quorum or None if is_master else None,
    )


class BeliefLog:
    """Collects one sentinel's view of masters and related instances, and keeps the periods."""

    def __init__(self, observer: str) -> None:
        self.observer = observer
        self.spans: list[Span] = []
        self._open: dict[str, dict[tuple[str, str, str], Span]] = {}

    @property
    def masters(self) -> list[str]:
        """Return the masters in the view."""
        return list(self._open)

    def note(self, ts_ns: int, master: str, beliefs: Iterable[Belief], cause: str, source: Source) -> None:
        """Set the view of *master* and its related instances from *ts_ns* on."""
        before, after = self._open.get(master, {}), {}
        for belief in beliefs:
            span = before.pop(belief.key, None)
            if span is None or span.belief != belief:
                if span is not None:
                    self._close(span, ts_ns)
                span = Span(self.observer, belief, ts_ns, None, cause, source)
            after[belief.key] = span
        for span in before.values():
            self._close(span, ts_ns)
        if after:
            self._open[master] = after
        else:
            self._open.pop(master, None)

    def finish(self) -> list[Span]:
        """End the evidence and return all periods in time order."""
        self.spans += [span for family in self._open.values() for span in family.values()]
        self._open = {}
        return sorted(self.spans, key=lambda span: (span.from_ns, span.belief.key))

    def _close(self, span: Span, ts_ns: int) -> None:
        if ts_ns > span.from_ns:
            self.spans.append(span._replace(to_ns=ts_ns))
