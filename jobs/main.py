"""``slotscope JOB …``: one program, a subcommand for each job."""

from __future__ import annotations

from collections.abc import Sequence

from slotscope.runtime import cli
from slotscope.runtime.cli import Command

ABOUT = "Where is the load of a Redis or Valkey cluster, what should move, and what happened? Dumps, captures and logs to Delta tables and reports."

START = "Start here"
LOAD = "Load: where is it, and what grew?"
PLAN = "Plan: what should move?"
HISTORY = "History: what happened, and why?"
WHAT_IF = "What if?"
LIVE = "Live: beside real servers"
DATA = "Data: what the tables hold"

COMMANDS = {
    "demo": Command(
        START, "jobs.demo:command", "What does all this look like?  On recorded clusters, no server needed."
    ),
    "look": Command(
        START, "jobs.look:command", "What is this? A live cluster's load and health; or files, whatever they are."
    ),
    "fleet": Command(START, "jobs.fleet:command", "Which cluster needs somebody first?  All of them, the worst first."),
    "setup": Command(START, "jobs.setup:command", "Is everything here that commands need?"),
    "key-slots": Command(LOAD, "jobs.key_slots:command", "How are keys and bytes spread over the 16384 slots?"),
    "export": Command(
        LOAD, "jobs.export:command", "What do the keys hold?  Values of a dump as JSON, CSV or commands."
    ),
    "advise": Command(LOAD, "jobs.advise:command", "What would save memory, how much, and at which price?"),
    "compare": Command(LOAD, "jobs.compare:command", "What grew between two snapshots?"),
    "rebalance": Command(
        PLAN,
        "jobs.rebalance:command",
        "Balance a live cluster: weigh its slots, plan, dry run; --apply does it and audits.",
    ),
    "rebalance-plan": Command(PLAN, "jobs.rebalance_plan:command", "Which slots should move?"),
    "check-plan": Command(
        PLAN, "jobs.check_plan:command", "Does a plan hold, checked without the program that made it?"
    ),
    "split-rdb": Command(PLAN, "jobs.split_rdb:command", "Which part of a dump would each planned master load?"),
    "execute-plan": Command(
        PLAN,
        "jobs.execute_plan:command",
        "Carry a plan out on a live cluster: dry run, apply, pause, resume, roll back.",
    ),
    "audit-plan": Command(PLAN, "jobs.audit_plan:command", "Did a plan keep its promise?"),
    "history": Command(
        HISTORY,
        "jobs.history:command",
        "Reconstruct cluster history from logs, polls, metrics and captures",
        former=("bus-replay",),
    ),
    "follow": Command(HISTORY, "jobs.follow:command", "Reconstruct cluster history from recordings as they arrive"),
    "incidents": Command(HISTORY, "jobs.incidents:command", "What happened to the cluster?"),
    "incident": Command(HISTORY, "jobs.incidents:story_command", "How did one incident go, step by step?"),
    "nodes": Command(HISTORY, "jobs.nodes:command", "What would a node have answered to CLUSTER NODES then?"),
    "route": Command(HISTORY, "jobs.route:command", "What would a node have answered to a command then?"),
    "bus-dump": Command(HISTORY, "jobs.bus_dump:command", "What went over the bus, one line a message?"),
    "replication-replay": Command(
        HISTORY, "jobs.replication_replay:command", "Who followed whom, and why was everything sent again?"
    ),
    "sentinel-replay": Command(
        HISTORY, "jobs.sentinel_replay:command", "What did every sentinel believe, and why a failover, or none?"
    ),
    "simulate": Command(
        WHAT_IF, "jobs.simulate:command", "How long do failures last?  Simulated, as many as it takes."
    ),
    "collect": Command(LIVE, "jobs.collect:command", "What does every node believe, second by second?"),
    "record": Command(
        LIVE,
        "jobs.record:command",
        "Record bus, polls and logs of this host's nodes, always: finished files, bounded, resumed.",
    ),
    "node": Command(
        LIVE, "jobs.node:command", "Be a node of a cluster, to see the bus or to try it: join, vote, leave."
    ),
    "sentinel": Command(LIVE, "jobs.sentinel:command", "Be a sentinel beside real ones: watch, vote, leave."),
    "snapshots": Command(DATA, "jobs.snapshots:command", "Which snapshots are there?"),
    "forget": Command(DATA, "jobs.upkeep:forget_command", "Which snapshots may go?  By name or age, from every table."),
    "maintain": Command(
        DATA, "jobs.upkeep:maintain_command", "Are the tables tidy?  Small files joined, old ones removed."
    ),
    "migrate": Command(DATA, "jobs.upkeep:migrate_command", "Bring tables of an older version to the current form."),
    "sql": Command(DATA, "jobs.sql:command", "What do the tables say to a question in SQL?"),
}
"""Each subcommand, in the order in which help shows them.  A new job is one line here."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the subcommand that *argv* (default: the command line) names."""
    cli.main(cli.application(ABOUT, COMMANDS), argv)


def run(words: Sequence[str], *, debug: bool = False) -> int:
    """Carry the command *words* out in this process, so that several share one Spark session; its exit code."""
    asked = ["--debug"] if debug and "--debug" not in words else []
    return cli.run(cli.application(ABOUT, COMMANDS), [*words, *asked])


if __name__ == "__main__":
    main()
