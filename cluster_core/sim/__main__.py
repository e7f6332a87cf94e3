"""``python -m cluster_core.sim SCENARIO.txt [--seed N] [--messages FILE]``, or ``--random N [--profile NAME]``: plays one run.

It prints the trace and what went wrong; exit code 1 if anything did.  *messages* takes what went over the bus, as
``slotscope bus-replay`` reads it.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip.profile import PROFILES
from cluster_core.sim.fuzz import random_scenario
from cluster_core.sim.play import Played, play
from cluster_core.sim.recording import Recorder
from cluster_core.sim.scenario import Scenario
from cluster_core.sim.scenario_text import read_scenario
from cluster_core.sim.stage import Stage

WENT_WRONG = 1
CANNOT = 2


def main() -> int:
    """Play what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m cluster_core.sim", description="Play a scenario.")
    parser.add_argument("scenario", nargs="?", help="file of a scenario")
    parser.add_argument("--seed", type=int, help="another seed than the scenario's own")
    parser.add_argument("--random", type=int, metavar="N", help="a scenario by chance, from this seed")
    parser.add_argument("--profile", choices=list(PROFILES), help="server version of a scenario by chance")
    parser.add_argument("--text", action="store_true", help="print the scenario before it is played")
    parser.add_argument("--messages", metavar="FILE", help="write what went over the bus, as JSON lines")
    options = parser.parse_args()
    if (options.scenario is None) == (options.random is None):
        parser.error("name a scenario, or give --random")
    try:
        text = (
            Path(options.scenario).read_text(encoding="utf-8")
            if options.scenario is not None
            else random_scenario(random.Random(f"fuzz/{options.random}"), options.random, options.profile or "")
        )
        scenario = read_scenario(text, options.scenario or "<random>")
    except (ClusterCoreError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT
    if options.text:
        sys.stdout.write(text)
    return _told(_played(scenario, options.seed, options.messages))


def _played(scenario: Scenario, seed: int | None, messages: str | None) -> Played:
    recorders: list[Recorder] = []

    def record(stage: Stage) -> None:
        stage.world.recorder = Recorder(stage.world)
        recorders.append(stage.world.recorder)

    played = play(scenario, random.Random, seed=seed, prepare=record if messages else None)
    if messages:
        with Path(messages).open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in recorders[0].lines())
    return played


def _told(played: Played) -> int:
    sys.stdout.write("".join(f"{line}\n" for line in played.trace))
    for failure in played.failures:
        sys.stderr.write(f"not as expected: {failure}\n")
    for violation in played.violations:
        sys.stderr.write(f"broken: {violation}\n")
    return 0 if played.is_fine else WENT_WRONG


if __name__ == "__main__":
    raise SystemExit(main())
