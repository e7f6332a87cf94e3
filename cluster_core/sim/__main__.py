"""``python -m cluster_core.sim SCENARIO.txt [--seed N] [--messages FILE]``, or ``--random N [--sentinels]``: plays one run.

It prints the trace and what went wrong; exit code 1 if anything did.  *messages* takes what went over the bus, as
``slotscope history`` reads it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from cluster_core.errors import ClusterCoreError
from cluster_core.gossip.profile import PROFILES
from cluster_core.rules import sentence
from cluster_core.sim.fuzz import random_scenario
from cluster_core.sim.recording import Recorder
from cluster_core.sim.scenario.play import Played, play
from cluster_core.sim.scenario.stage import Stage
from cluster_core.sim.scenario.text import Scenario, read_scenario
from cluster_core.sim.sentinels.fuzz import random_sentinel_scenario
from cluster_core.sim.sentinels.stage import SentinelStage

WENT_WRONG = 1
CANNOT = 2


def main() -> int:
    """Play what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m cluster_core.sim", description="Play a scenario.")
    parser.add_argument("scenario", nargs="?", help="file of a scenario")
    parser.add_argument("--seed", type=int, help="another seed than the scenario's own")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="play it with the seeds 0 to N - 1 and count what --count names"
    )
    parser.add_argument("--count", metavar="TEXT", default="", help="lines of the trace that --seeds counts")
    parser.add_argument("--random", type=int, metavar="N", help="a scenario by chance, from this seed")
    parser.add_argument("--sentinels", action="store_true", help="a scenario of sentinels by chance")
    parser.add_argument("--profile", choices=list(PROFILES), help="server version of a scenario by chance")
    parser.add_argument("--text", action="store_true", help="print the scenario before it is played")
    parser.add_argument("--messages", metavar="FILE", help="write what went over the bus, as JSON lines")
    options = parser.parse_args()
    if (options.scenario is None) == (options.random is None):
        parser.error("name a scenario, or give --random")
    try:
        text = _text(options)
        scenario = read_scenario(text, options.scenario or "<random>")
    except (ClusterCoreError, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT
    if options.messages and scenario.sentinels is not None:
        parser.error("--messages is what goes over the bus of a cluster; sentinels have none")
    if options.text:
        sys.stdout.write(text)
    sys.stderr.write("".join(f"shows {rule}: {sentence(rule)}\n" for rule in scenario.rules))
    if options.seeds is not None:
        return _counted(scenario, options.seeds, options.count)
    return _told(_played(scenario, options.seed, options.messages))


def _text(options: argparse.Namespace) -> str:
    """The scenario that the command line names."""
    if options.scenario is not None:
        return Path(options.scenario).read_text(encoding="utf-8")
    if options.sentinels:
        return random_sentinel_scenario(random.Random(f"sentinels/{options.random}"), options.random)
    return random_scenario(random.Random(f"fuzz/{options.random}"), options.random, options.profile or "")


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


def _counted(scenario: Scenario, seeds: int, text: str) -> int:
    """In how many runs the trace has how many lines with *text*; what the scenario expects holds for its own seed only."""
    runs: Counter[int] = Counter()
    wrong = []
    for seed in range(seeds):
        played = play(scenario, random.Random, seed=seed)
        runs[sum(text in line for line in played.trace)] += 1
        if played.violations:
            wrong.append(str(seed))
    sys.stdout.write("".join(f"{count} lines: {runs[count]} runs\n" for count in sorted(runs)))
    if wrong:
        sys.stderr.write(f"broken with seeds {', '.join(wrong)}\n")
    return WENT_WRONG if wrong else 0


def _told(played: Played) -> int:
    sys.stdout.write("".join(f"{line}\n" for line in played.trace))
    if not isinstance(played.stage, SentinelStage):
        sys.stderr.write(f"writes: {_writes(played.stage)}\n")
    for failure in played.failures:
        sys.stderr.write(f"not as expected: {failure}\n")
    for violation in played.violations:
        sys.stderr.write(f"broken: {violation}\n")
    return 0 if played.is_fine else WENT_WRONG


def _writes(stage: Stage) -> str:
    """What became of the writes that clients were told are done."""
    if not stage.clients:
        return "not measured, there are no clients"
    missing = stage.missing()
    words = f"{stage.acknowledged} acknowledged, {len(missing.lost)} lost, {len(missing.unavailable)} unavailable"
    return f"{words}: no running node serves their slots, but copies hold them" if missing.unavailable else words


if __name__ == "__main__":
    raise SystemExit(main())
