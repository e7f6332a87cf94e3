"""``slotscope JOB …``: one program, a subcommand for each job."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.runtime import cli

ABOUT = "Where is the load of a Redis or Valkey cluster, and what happened to it? Dumps, captures and logs to Delta tables and reports."

COMMANDS = {
    "key-slots": ("jobs.key_slots:command", "How are keys and bytes spread over the 16384 slots?"),
    "bus-replay": ("jobs.bus_replay:command", "What did every node believe, when, and why?"),
    "nodes": ("jobs.nodes:command", "What would a node have answered to CLUSTER NODES then?"),
    "route": ("jobs.route:command", "What would a node have answered to a command then?"),
    "incidents": ("jobs.incidents:command", "What happened to the cluster?"),
    "incident": ("jobs.incidents:story_command", "How did one incident go, step by step?"),
    "bus-dump": ("jobs.bus_dump:command", "What went over the bus, one line a message?"),
    "collect": ("jobs.collect:command", "What does every node of a live cluster believe, second by second?"),
    "compare": ("jobs.compare:command", "What grew between two snapshots?"),
}
"""Subcommand to the function that carries it out, and its line of help.  A new job is one line here."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the subcommand that *argv* (default: the command line) names."""
    cli.main(cli.application(ABOUT, COMMANDS), argv)


if __name__ == "__main__":
    main()
