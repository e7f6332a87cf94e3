"""``slotscope JOB …``: one program, a subcommand for each job."""

from __future__ import annotations

from collections.abc import Sequence

from slotscope.runtime import cli

ABOUT = "Where is the load of a Redis or Valkey cluster, what should move, and what happened? Dumps, captures and logs to Delta tables and reports."

COMMANDS = {
    "demo": ("jobs.demo:command", "What does all this look like?  On recorded clusters, no server needed."),
    "setup": ("jobs.setup:command", "Is everything here that commands need?"),
    "key-slots": ("jobs.key_slots:command", "How are keys and bytes spread over the 16384 slots?"),
    "rebalance-plan": ("jobs.rebalance_plan:command", "Which slots should move?"),
    "check-plan": ("jobs.check_plan:command", "Does a plan hold, checked without the program that made it?"),
    "execute-plan": (
        "jobs.execute_plan:command",
        "Carry a plan out on a live cluster: dry run, apply, pause, resume, roll back.",
    ),
    "bus-replay": ("jobs.bus_replay:command", "What did every node believe, when, and why?"),
    "nodes": ("jobs.nodes:command", "What would a node have answered to CLUSTER NODES then?"),
    "route": ("jobs.route:command", "What would a node have answered to a command then?"),
    "incidents": ("jobs.incidents:command", "What happened to the cluster?"),
    "incident": ("jobs.incidents:story_command", "How did one incident go, step by step?"),
    "bus-dump": ("jobs.bus_dump:command", "What went over the bus, one line a message?"),
    "collect": ("jobs.collect:command", "What does every node of a live cluster believe, second by second?"),
    "audit-plan": ("jobs.audit_plan:command", "Did a plan keep its promise?"),
    "node": ("jobs.node:command", "What does it take to be a node?  Joins a real cluster and votes."),
    "sentinel": ("jobs.sentinel:command", "What does it take to be a sentinel?  Watches beside real ones and votes."),
    "simulate": ("jobs.simulate:command", "What if? Simulated failures, as many as it takes."),
    "split-rdb": ("jobs.split_rdb:command", "Which part of a dump would each planned master load?"),
    "replication-replay": ("jobs.replication_replay:command", "Who followed whom, and why was everything sent again?"),
    "sentinel-replay": (
        "jobs.sentinel_replay:command",
        "What did every sentinel believe, and why a failover, or none?",
    ),
    "sql": ("jobs.sql:command", "What do the tables say to a question in SQL?"),
    "snapshots": ("jobs.snapshots:command", "Which snapshots are there?"),
    "compare": ("jobs.compare:command", "What grew between two snapshots?"),
}
"""Subcommand to the function that carries it out, and its line of help.  A new job is one line here."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the subcommand that *argv* (default: the command line) names."""
    cli.main(cli.application(ABOUT, COMMANDS), argv)


if __name__ == "__main__":
    main()
