"""``python -m cluster_core.sim SCENARIO.txt [--seed N] [--messages FILE]``, or ``--random N``: plays one run.

It prints the trace and what went wrong; exit code 1 if anything did.  *messages* is a pcap of
what went over the bus, for ``slotscope history --pcap``.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip.profile import PROFILES
from cluster_core.rules import sentence
from cluster_core.sim.fuzz import random_scenario
from cluster_core.sim.recording import Recorder
from cluster_core.sim.scenario.play import Played, play
from cluster_core.sim.scenario.stage import Stage
from cluster_core.sim.scenario.text import Scenario, read_scenario

WENT_WRONG = 1
CANNOT = 2


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m cluster_core.sim", description="Play a scenario.")
    parser.add_argument("scenario", nargs="?", help="file of a scenario")
    parser.add_argument("--seed", type=int, help="another seed than the scenario's own")
    parser.add_argument("--random", type=int, metavar="N", help="random scenario, from this seed")
    parser.add_argument("--profile", choices=list(PROFILES), help="server version of a random scenario")
    parser.add_argument("--text", action="store_true", help="print the scenario before it is played")
    parser.add_argument("--messages", metavar="FILE", help="write what went over the bus, as a pcap file")
    options = parser.parse_args()
    if (options.scenario is None) == (options.random is None):
        parser.error("name a scenario, or give --random")
    try:
        if options.scenario is None:
            text = random_scenario(random.Random(f"fuzz/{options.random}"), options.random, options.profile or "")
        else:
            text = Path(options.scenario).read_text(encoding="utf-8")
        scenario = read_scenario(text, options.scenario or "<random>")
    except (ClusterCoreError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT
    if options.text:
        sys.stdout.write(text)
    sys.stderr.write("".join(f"shows {rule}: {sentence(rule)}\n" for rule in scenario.rules))
    return _report(_played(scenario, options.seed, options.messages))


def _played(scenario: Scenario, seed: int | None, messages: str | None) -> Played:
    recorders: list[Recorder] = []

    def record(stage: Stage) -> None:
        stage.world.recorder = Recorder(stage.world)
        recorders.append(stage.world.recorder)

    played = play(scenario, random.Random, seed=seed, prepare=record if messages else None)
    if messages:
        with Path(messages).open("wb") as file:
            file.writelines(recorders[0].pcap())
    return played


def _report(played: Played) -> int:
    sys.stdout.write("".join(f"{line}\n" for line in played.trace))
    sys.stderr.write(f"writes: {_writes(played.stage)}\n")
    for failure in played.failures:
        sys.stderr.write(f"not as expected: {failure}\n")
    for violation in played.violations:
        sys.stderr.write(f"broken: {violation}\n")
    return 0 if played.is_fine else WENT_WRONG


def _writes(stage: Stage) -> str:
    """Summarize acknowledged writes."""
    if not stage.clients:
        return "not measured, there are no clients"
    missing = stage.missing()
    words = f"{stage.acknowledged} acknowledged, {len(missing.lost)} lost, {len(missing.unavailable)} unavailable"
    return f"{words}: no running node serves their slots, but copies hold them" if missing.unavailable else words


if __name__ == "__main__":
    raise SystemExit(main())
