"""``slotscope COMMAND …``: one program, a subcommand for each job."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App

from slotscope.runtime import cli
from slotscope.runtime.cli import Command

ABOUT = "Find load, plan slot moves and explain failovers of Redis and Valkey clusters."

INSPECT = "Inspect"
PLAN = "Plan and apply"
HISTORY = "History"
FLEET = "Fleet"
DATA = "Data and tools"

COMMANDS = {
    "demo": Command(
        INSPECT,
        "jobs.demo:command",
        "Run the main commands on recorded clusters; no server needed",
        "slotscope demo",
        ("root",),
    ),
    "look": Command(
        INSPECT,
        "jobs.look:command",
        "Check load and health of a live cluster, or analyse files",
        "slotscope look 10.0.0.5:6379",
        ("seconds", "rate", "psync", "user", "tls", "dry-run", "snapshot", "json"),
    ),
    "key-slots": Command(
        INSPECT,
        "jobs.key_slots:command",
        "Measure keys and memory per slot and node from dumps",
        "slotscope key-slots --rdb 'dumps/*.rdb' --topology nodes.txt --snapshot today",
        ("rdb", "aof", "keys", "topology", "snapshot", "cluster", "mode", "json"),
    ),
    "advise": Command(
        INSPECT,
        "jobs.advise:command",
        "Rank changes that save memory",
        "slotscope advise --snapshot today",
        ("snapshot", "cluster", "rdb", "topology", "server", "allocator", "html", "json"),
    ),
    "compare": Command(
        INSPECT,
        "jobs.compare:command",
        "Show growth between two snapshots",
        "slotscope compare yesterday today",
        ("from", "to", "cluster", "html", "root", "json"),
    ),
    "export": Command(
        INSPECT,
        "jobs.export:command",
        "Export keys and values of dumps as JSON or commands",
        "slotscope export --rdb dump.rdb --to json --out - --prefix user:",
        ("rdb", "to", "out", "match", "prefix", "type", "ttl"),
    ),
    "rebalance": Command(
        PLAN,
        "jobs.rebalance:command",
        "Balance a live cluster: measure, plan, dry run; --apply moves",
        "slotscope rebalance 10.0.0.5:6379 --apply",
        ("apply", "rollback", "tolerance", "drain", "latency-ms-max", "new", "user", "tls"),
    ),
    "plan make": Command(
        PLAN,
        "jobs.rebalance_plan:command",
        "Plan the moves of slots that balance a snapshot",
        "slotscope plan make --snapshot today --tolerance 5%",
        ("snapshot", "cluster", "resources", "tolerance", "placement", "drain", "if-needed", "json"),
    ),
    "plan check": Command(
        PLAN,
        "jobs.check_plan:command",
        "Verify a plan in exact arithmetic, from its tables alone",
        "slotscope plan check --plan latest",
        ("plan", "root", "json"),
    ),
    "plan execute": Command(
        PLAN,
        "jobs.execute_plan:command",
        "Apply, pause, resume or roll back a plan on a live cluster",
        "slotscope plan execute --cluster 10.0.0.5:6379 --plan latest --apply",
        ("cluster", "plan", "apply", "rollback", "latency-ms-max", "user", "tls"),
    ),
    "plan audit": Command(
        PLAN,
        "jobs.audit_plan:command",
        "Compare the promises of a plan with the cluster after its moves",
        "slotscope plan audit --cluster 10.0.0.5:6379",
        ("plan", "cluster", "seconds", "user", "tls", "json"),
    ),
    "history": Command(
        HISTORY,
        "jobs.history:command",
        "Reconstruct cluster history from logs, polls, metrics, captures",
        "slotscope history --log 'logs/*' --polls polls.jsonl --pcap 'bus/*.pcap'",
        ("log", "pcap", "polls", "prometheus", "snapshot", "cluster", "log-zone", "mode"),
    ),
    "incidents": Command(
        HISTORY,
        "jobs.incidents:command",
        "List the incidents of a history, or explain one step by step",
        "slotscope incidents 1",
        ("snapshot", "cluster", "html", "root", "json"),
    ),
    "nodes": Command(
        HISTORY,
        "jobs.nodes:command",
        "Print CLUSTER NODES as a node answered at a time",
        "slotscope nodes --observer 10.0.0.5:6379 --at 2026-11-23T02:00:00Z",
        ("observer", "at", "diff", "snapshot", "cluster", "root", "json"),
    ),
    "simulate": Command(
        HISTORY,
        "jobs.simulate:command",
        "Simulate failures and report how long failovers take",
        "slotscope simulate --fault crash --node-timeout-ms 5000 15000 --seeds 100",
        ("fault", "hit", "seeds", "profile", "node-timeout-ms", "shards", "replicas"),
    ),
    "record": Command(
        FLEET,
        "jobs.record:command",
        "Record bus and polls of the nodes on this host",
        "slotscope record /var/lib/landing --cluster orders --node 127.0.0.1:6379",
        ("cluster", "node", "kinds", "every", "keep-bytes", "keep-hours", "user", "tls"),
    ),
    "collect": Command(
        FLEET,
        "jobs.collect:command",
        "Poll every node of a live cluster and keep the answers",
        "slotscope collect 10.0.0.5:6379 --landing landing",
        ("landing", "cluster", "interval", "duration", "keep-bytes", "slot-stats", "user", "tls"),
    ),
    "follow": Command(
        FLEET,
        "jobs.follow:command",
        "Reconstruct history from recordings as they arrive",
        "slotscope follow --landing s3://bucket/landing --webhook https://alerts.example/hook",
        ("landing", "once", "every", "lateness", "keep", "on-incident", "webhook", "metrics", "root"),
    ),
    "fleet": Command(
        FLEET,
        "jobs.fleet:command",
        "Compare all clusters, the most urgent first",
        "slotscope fleet",
        ("html", "root", "json"),
    ),
    "sql": Command(
        DATA,
        "jobs.sql:command",
        "Query the tables in SQL with DuckDB",
        "slotscope sql 'SELECT * FROM node_load_now'",
        ("root", "json"),
    ),
    "tables snapshots": Command(
        DATA,
        "jobs.upkeep:snapshots_command",
        "List the snapshots in the tables",
        "slotscope tables snapshots",
        ("root", "json"),
    ),
    "tables forget": Command(
        DATA,
        "jobs.upkeep:forget_command",
        "Remove snapshots from every table",
        "slotscope tables forget --older-than 90d --apply",
        ("snapshot", "older-than", "apply", "root"),
    ),
    "tables maintain": Command(
        DATA,
        "jobs.upkeep:maintain_command",
        "Compact the tables and remove replaced files",
        "slotscope tables maintain",
        ("retention-hours", "log-retention-days", "abandoned-hours", "root"),
    ),
    "tables migrate": Command(
        DATA,
        "jobs.upkeep:migrate_command",
        "Bring tables of an older version to the current form",
        "slotscope tables migrate --root slotscope-data",
        ("root", "json"),
    ),
    "setup": Command(
        DATA,
        "jobs.setup:command",
        "Check Java, fetch the Delta and S3 jars, compile native code",
        "slotscope setup",
    ),
    "lab sentinel-replay": Command(
        DATA,
        "jobs.sentinel_replay:command",
        "Explain failovers by Sentinel from logs and polls",
        "slotscope lab sentinel-replay --log 'logs/*' --polls polls.jsonl",
        ("log", "polls", "snapshot", "cluster", "log-zone", "html", "mode"),
    ),
}
"""Each subcommand by its name, in the order of its help.  A new job is one entry here."""
FAMILIES = {
    "plan": "Make, check, execute and audit plans of slot moves",
    "tables": "List and remove snapshots, maintain and migrate the tables",
    "lab": "Explain failovers by Sentinel",
}
"""Help of commands with the same first word."""


def program() -> App:
    """The command line with every subcommand."""
    return cli.application(ABOUT, COMMANDS, FAMILIES)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the subcommand that *argv* (default: the command line) names."""
    cli.main(program(), argv)


def run(arguments: Sequence[str], *, debug: bool = False) -> int:
    """Run the command *arguments* in this process, so that several share one Spark session; return its exit code."""
    flags = ["--debug"] if debug and "--debug" not in arguments else []
    return cli.run(program(), [*arguments, *flags])


if __name__ == "__main__":
    main()
