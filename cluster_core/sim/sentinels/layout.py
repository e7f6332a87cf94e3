"""Which sentinels a simulation has, and what they are configured to watch: S1, S2 … and shard1, shard2 … (S1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from cluster_core.node.state import NodeSettings, random_id
from cluster_core.sim.layouts import Layout, LayoutError, Place, names_of

if TYPE_CHECKING:
    from random import Random

SENTINELS_MAX: Final = 200
SENTINEL_PORT: Final = 26379


@dataclass(frozen=True, slots=True)
class SentinelLayout:
    """How many sentinels, and the options of every master that they watch; times in milliseconds."""

    count: int = 3
    quorum: int = 2
    down_after_ms: int = 2000
    failover_timeout_ms: int = 10_000
    parallel_syncs: int = 1


def check_sentinels(layout: SentinelLayout) -> None:
    """Raise LayoutError for what no sentinel would take."""
    if not 1 <= layout.count <= SENTINELS_MAX:
        raise LayoutError(f"{layout.count} sentinels are not 1 to {SENTINELS_MAX}")
    if min(layout.quorum, layout.down_after_ms, layout.failover_timeout_ms, layout.parallel_syncs) < 1:
        raise LayoutError("quorum, down-after, failover-timeout and parallel-syncs are more than 0")


def shard_of(name: str) -> str:
    """What sentinels call the master that was born as M1, and its replicas R1, R1b …

    >>> shard_of("M1"), shard_of("R2b")
    ('shard1', 'shard2')
    """
    return "shard" + "".join(letter for letter in name if letter.isdigit())


def names_with_sentinels(layout: Layout, sentinels: SentinelLayout) -> dict[str, tuple[str, ...]]:
    """What a scenario may call servers and sentinels: `names_of`, S1 …, ``sentinels``, ``servers``; zones hold both."""
    names = names_of(layout)
    watchers = tuple(f"S{number}" for number in range(1, sentinels.count + 1))
    servers = names["all"]
    names |= {name: (name,) for name in watchers}
    names["sentinels"], names["servers"] = watchers, servers
    names["all"] = names["others"] = (*servers, *watchers)
    for index, name in enumerate(watchers):
        zone = f"Z{index % layout.zones + 1}"
        names[zone] = (*names.get(zone, ()), name)
    return names


def sentinel_places(layout: SentinelLayout, zones: int, rng: Random) -> list[Place]:
    """The sentinels, spread over the zones, with ids by chance; raises LayoutError."""
    check_sentinels(layout)
    settings = NodeSettings(port=SENTINEL_PORT)
    return [
        Place(
            f"S{index + 1}",
            f"10.200.{index // 250}.{index % 250 + 1}",
            f"Z{index % zones + 1}",
            settings,
            random_id(rng),
            "",
        )
        for index in range(layout.count)
    ]


def sentinel_config(layout: SentinelLayout, my_id: str, masters: Sequence[Place]) -> str:
    """The sentinel.conf that a sentinel starts from."""
    lines = [f"sentinel myid {my_id}"] if my_id else []
    for place in masters:
        name = shard_of(place.name)
        lines += [
            f"sentinel monitor {name} {place.ip} {place.settings.port} {layout.quorum}",
            f"sentinel down-after-milliseconds {name} {layout.down_after_ms}",
            f"sentinel failover-timeout {name} {layout.failover_timeout_ms}",
            f"sentinel parallel-syncs {name} {layout.parallel_syncs}",
        ]
    return "\n".join((*lines, ""))


def with_values(layout: SentinelLayout, values: Mapping[str, int]) -> SentinelLayout:
    """*layout* with *values*, checked; raises LayoutError."""
    changed = replace(layout, **values)
    check_sentinels(changed)
    return changed
