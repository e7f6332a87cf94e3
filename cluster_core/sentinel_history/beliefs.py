"""What a sentinel believed, as rows: one for each instance and time in which nothing shown of it changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cluster_core.kinds import Source
from cluster_core.sentinel.instance import FailoverState, Flag, Instance, flag_text

KINDS = {Flag.MASTER: "master", Flag.REPLICA: "replica", Flag.SENTINEL: "sentinel"}
ROLES = {Flag.MASTER: "master", Flag.REPLICA: "slave"}


class Belief(NamedTuple):
    """What SENTINEL MASTERS, REPLICAS or SENTINELS would show of one instance; empty or None where it shows nothing."""

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
        """Which instance it is about."""
        return self.kind, self.master, self.name


class Span(NamedTuple):
    """A belief with its time; *cause* is what showed it, *source* where that came from; *to_ns* is None while it holds."""

    observer: str
    belief: Belief
    from_ns: int
    to_ns: int | None
    cause: str
    source: Source


def family_of(master: Instance) -> list[Instance]:
    """A master, its replicas and its sentinels."""
    return [master, *master.replicas.values(), *master.sentinels.values()]


def shown_family(master: Instance) -> Iterable[Instance]:
    """The same without the replicas that do not want to be announced: they are in no answer."""
    yield master
    yield from (replica for replica in master.replicas.values() if replica.is_announced)
    yield from master.sentinels.values()


def belief_of(instance: Instance, flags: str | None = None) -> Belief:
    """The belief that a record stands for; *flags* in place of its own words."""
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
    """Takes what one sentinel believes of a master and its family when that may have changed, and keeps the spans."""

    def __init__(self, observer: str) -> None:
        self.observer = observer
        self.spans: list[Span] = []
        self._open: dict[str, dict[tuple[str, str, str], Span]] = {}

    @property
    def masters(self) -> list[str]:
        """The masters of which it believes something."""
        return list(self._open)

    def note(self, ts_ns: int, master: str, beliefs: Iterable[Belief], cause: str, source: Source) -> None:
        """From *ts_ns* on it believes *beliefs* of *master* and its family, and nothing else of them."""
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
        """The evidence ends: return all spans in order of time."""
        self.spans += [span for family in self._open.values() for span in family.values()]
        self._open = {}
        return sorted(self.spans, key=lambda span: (span.from_ns, span.belief.key))

    def _close(self, span: Span, ts_ns: int) -> None:
        if ts_ns > span.from_ns:
            self.spans.append(span._replace(to_ns=ts_ns))
