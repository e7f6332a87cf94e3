"""Random scenarios: a cluster, load, overlapping faults, then a quiet period to recover.

The result is scenario text, so failures can be saved, reduced and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from cluster_core.gossip.profile import PROFILES

T = TypeVar("T")
ZONES: Final = 3
FIRST_FAULT_S: Final = 6.0
FAULTS_S: Final = 30.0
"""Seconds within which faults start."""
FAULTS: Final = (
    "crash", "crash", "stop", "cut", "cut", "zone", "flap", "lose", "delay", "jump", "slow", "move", "failover",
)  # fmt: skip


def random_scenario(seed: int) -> str:
    rng = Random(f"fuzz/{seed}")

    def below(limit: int) -> int:
        return int(rng.random() * limit)

    def pick(choices: Sequence[T]) -> T:
        return choices[below(len(choices))]

    masters, replicas = 3 + below(4), below(3)
    timeout_s, profile = pick((1, 2, 5)), pick(tuple(PROFILES))
    numbers = range(1, masters + 1)
    names = [f"M{n}" for n in numbers] + [f"R{n}{'b' if k else ''}" for k in range(replicas) for n in numbers]
    steps: list[tuple[float, str]] = []
    repairs: list[str] = []

    def some() -> str:
        return ",".join([name for name in names if rng.random() < 0.3][: len(names) // 2] or [pick(names)])

    def rest_s() -> float:
        """Return a fault's duration, below or above a node timeout."""
        return timeout_s * (0.1 + 4 * rng.random())

    while len(steps) < 4 + 2 * below(5):
        fault, at_s = pick(FAULTS), FIRST_FAULT_S + rng.random() * FAULTS_S
        match fault:
            case "crash":
                victim = pick(names)
                steps.append((at_s, f"{pick(('crash', 'switch-off'))} {victim}"))
                steps.append((at_s + rest_s(), f"restart {victim}"))
            case "stop":
                victim = pick(names)
                steps += [(at_s, f"stop {victim}"), (at_s + rest_s(), f"resume {victim}")]
                repairs.append(f"resume {victim}")
            case "cut":
                node, ways = some(), "" if rng.random() < 0.6 else " one-way"
                steps += [(at_s, f"cut {node} from others{ways}"), (at_s + rest_s(), "heal")]
            case "zone":
                steps += [(at_s, f"cut Z{1 + below(ZONES)} from others"), (at_s + rest_s(), "heal")]
            case "flap":
                steps.append((at_s, f"flap {pick(names)} from {some()} every {timeout_s * 300}ms for 5s"))
            case "lose":
                steps.append((at_s, f"lose 0.05 between {some()} and others"))
            case "delay":
                steps.append((at_s, f"delay {some()} from others by {pick((50, 300))}ms"))
            case "jump":
                sign = pick(("+", "-"))
                steps.append((at_s, f"jump {pick(names)} {sign}{pick((200, 1500, 20_000))}ms"))
            case "slow":
                victim = pick(names)
                steps.append((at_s, f"slow {victim} {pick((1, 5))}ms"))
                steps.append((at_s + rest_s(), f"slow {victim} 0ms"))
            case "move":
                node, other = pick(names[:masters]), pick(names[:masters])
                if node != other:
                    steps.append((at_s, f"move-slot {below(16384)} from {node} to {other}"))
            case "failover":
                how = pick(("", "", " FORCE"))
                steps.append((at_s, f"command {pick(names)} CLUSTER FAILOVER{how}"))
    peace_s = max([at_s for at_s, _ in steps] + [FIRST_FAULT_S + FAULTS_S]) + 1
    end_s = peace_s + 20 * timeout_s + 30
    lines = [
        f"title By chance, seed {seed}",
        f"cluster masters={masters} replicas={replicas} zones={ZONES}",
        f"settings profile={profile} node-timeout={timeout_s}s repl-ping-period=1",
        f"network delay={pick(('200us', '1ms', '20ms'))} jitter={pick(('50us', '1ms'))}",
        f"seed {seed}",
        f"at 3s clients {1 + below(4)} rate {pick((5, 20))}",
        *(f"at {at_s:.3f}s {text}" for at_s, text in sorted(steps, key=lambda step: step[0])),
        f"at {peace_s:.3f}s heal",
        *(f"at {peace_s:.3f}s {text}" for text in repairs),
        f"at {end_s - 10:.3f}s stop-clients",
        f"end {end_s:.3f}s",
    ]
    return "\n".join((*lines, ""))
