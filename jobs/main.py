"""``slotscope COMMAND …``: one program, a subcommand for each job."""

from __future__ import annotations

from collections.abc import Sequence

from slotscope.runtime import cli
from slotscope.runtime.cli import MORE, Command

ABOUT = "Find the load of Redis and Valkey clusters, plan and apply moves of slots, and explain failovers."

INSPECT = "Inspect"
PLAN = "Plan"
APPLY = "Apply"
HISTORY = "History"
FLEET = "Fleet"
DATA = "Data"
GROUPS = (INSPECT, PLAN, APPLY, HISTORY, FLEET, DATA, MORE)

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
    "rebalance-plan": Command(
        PLAN,
        "jobs.rebalance_plan:command",
        "Plan the moves of slots that balance a snapshot",
        "slotscope rebalance-plan --snapshot today --tolerance 5%",
        ("snapshot", "cluster", "resources", "tolerance", "placement", "drain", "if-needed", "json"),
    ),
    "rebalance": Command(
        APPLY,
        "jobs.rebalance:command",
        "Balance a live cluster: measure, plan, dry run; --apply moves",
        "slotscope rebalance 10.0.0.5:6379 --apply",
        ("apply", "rollback", "tolerance", "drain", "latency-ms-max", "maintenance-window", "new", "user", "tls"),
    ),
    "history": Command(
        HISTORY,
        "jobs.history:command",
        "Reconstruct cluster history from logs, polls, metrics, captures",
        "slotscope history --log 'logs/*' --polls polls.jsonl --pcap 'bus/*.pcap'",
        ("log", "pcap", "polls", "prometheus", "snapshot", "cluster", "log-zone", "mode"),
        ("bus-replay",),
    ),
    "incidents": Command(
        HISTORY,
        "jobs.incidents:command",
        "List the incidents of a history and write its report",
        "slotscope incidents --snapshot latest",
        ("snapshot", "cluster", "html", "root", "json"),
    ),
    "fleet": Command(
        FLEET,
        "jobs.fleet:command",
        "Compare all clusters, the most urgent first",
        "slotscope fleet",
        ("html", "root", "json"),
    ),
    "follow": Command(
        FLEET,
        "jobs.follow:command",
        "Reconstruct history from recordings as they arrive",
        "slotscope follow --landing s3://bucket/landing --webhook https://alerts.example/hook",
        ("landing", "once", "every", "lateness", "on-incident", "webhook", "metrics", "root"),
    ),
    "sql": Command(
        DATA,
        "jobs.sql:command",
        "Query the tables in SQL with DuckDB",
        "slotscope sql 'SELECT * FROM node_load_now'",
        ("root", "json"),
    ),
    "advise": Command(
        MORE,
        "jobs.advise:command",
        "Rank changes that save memory",
        "slotscope advise --snapshot today",
        ("snapshot", "cluster", "rdb", "topology", "server", "allocator", "html", "json"),
    ),
    "audit-plan": Command(
        MORE,
        "jobs.audit_plan:command",
        "Compare the promises of a plan with the cluster after its moves",
        "slotscope audit-plan --cluster 10.0.0.5:6379",
        ("plan", "cluster", "snapshot", "seconds", "sample", "user", "tls", "json"),
    ),
    "bus-dump": Command(
        MORE,
        "jobs.bus_dump:command",
        "Print captured messages of the cluster bus",
        "slotscope bus-dump bus.pcap --type fail auth-req --since 2026-11-23T02:00:00Z",
        ("node", "type", "since", "until", "verbose", "relative", "limit", "json"),
    ),
    "check-plan": Command(
        MORE,
        "jobs.check_plan:command",
        "Verify a plan in exact arithmetic, from its tables alone",
        "slotscope check-plan --plan latest",
        ("plan", "root", "json"),
    ),
    "collect": Command(
        MORE,
        "jobs.collect:command",
        "Poll every node of a live cluster and keep the answers",
        "slotscope collect 10.0.0.5:6379 --landing landing",
        ("landing", "cluster", "interval", "duration", "keep-bytes", "slot-stats", "user", "tls"),
    ),
    "compare": Command(
        MORE,
        "jobs.compare:command",
        "Show growth between two snapshots",
        "slotscope compare --from yesterday --to today",
        ("from", "to", "cluster", "html", "root", "json"),
    ),
    "execute-plan": Command(
        MORE,
        "jobs.execute_plan:command",
        "Apply, pause, resume or roll back a plan on a live cluster",
        "slotscope execute-plan --cluster 10.0.0.5:6379 --plan latest --apply",
        ("cluster", "plan", "apply", "rollback", "latency-ms-max", "maintenance-window", "user", "tls"),
    ),
    "export": Command(
        MORE,
        "jobs.export:command",
        "Export keys and values of dumps as JSON, commands or Parquet",
        "slotscope export --rdb dump.rdb --to json --out - --prefix user:",
        ("rdb", "to", "out", "match", "prefix", "type", "ttl"),
    ),
    "forget": Command(
        MORE,
        "jobs.upkeep:forget_command",
        "Remove snapshots from every table",
        "slotscope forget --older-than 90d --apply",
        ("snapshot", "older-than", "apply", "root"),
    ),
    "incident": Command(
        MORE,
        "jobs.incidents:story_command",
        "Explain one incident step by step",
        "slotscope incident 1",
        ("parts", "snapshot", "cluster", "root", "json"),
    ),
    "maintain": Command(
        MORE,
        "jobs.upkeep:maintain_command",
        "Compact the tables and remove replaced files",
        "slotscope maintain --retention-hours 168",
        ("retention-hours", "log-retention-days", "abandoned-hours", "root"),
    ),
    "migrate": Command(
        MORE,
        "jobs.upkeep:migrate_command",
        "Bring tables of an older version to the current form",
        "slotscope migrate --root slotscope-data",
        ("root", "json"),
    ),
    "node": Command(
        MORE,
        "jobs.node:command",
        "Join a live cluster as a test node",
        "slotscope node --join 10.0.0.5:6379 --duration 60",
        ("join", "bind", "port", "profile", "duration", "folder"),
    ),
    "nodes": Command(
        MORE,
        "jobs.nodes:command",
        "Print CLUSTER NODES as a node would have answered at a time",
        "slotscope nodes --observer 10.0.0.5:6379 --at 2026-11-23T02:00:00Z",
        ("observer", "at", "diff", "versus", "snapshot", "cluster", "root", "json"),
    ),
    "record": Command(
        MORE,
        "jobs.record:command",
        "Record bus, polls and logs of the nodes on this host",
        "slotscope record /var/lib/landing --cluster orders --node 127.0.0.1:6379",
        ("cluster", "node", "kinds", "every", "keep-bytes", "keep-hours", "user", "tls"),
    ),
    "replication-replay": Command(
        MORE,
        "jobs.replication_replay:command",
        "Explain resyncs of replicas from captures of client ports",
        "slotscope replication-replay --pcap 'clients/*.pcap'",
        ("pcap", "backlog-size", "snapshot", "cluster", "html", "mode"),
    ),
    "route": Command(
        MORE,
        "jobs.route:command",
        "Print the redirection that a node would have answered at a time",
        "slotscope route --observer 10.0.0.5:6379 -- GET user:1",
        ("observer", "at", "server", "readonly", "snapshot", "root", "json"),
    ),
    "sentinel": Command(
        MORE,
        "jobs.sentinel:command",
        "Run a test sentinel beside real ones",
        "slotscope sentinel --join 10.0.0.5:26379 --duration 60",
        ("monitor", "join", "name", "quorum", "down-after", "port", "duration"),
    ),
    "sentinel-replay": Command(
        MORE,
        "jobs.sentinel_replay:command",
        "Explain failovers by Sentinel from captures, logs and polls",
        "slotscope sentinel-replay --pcap 'sentinel/*.pcap' --log 'logs/*'",
        ("pcap", "log", "polls", "snapshot", "cluster", "log-zone", "html", "mode"),
    ),
    "setup": Command(
        MORE,
        "jobs.setup:command",
        "Check Java, download the Delta JARs and compile native code",
        "slotscope setup",
        ("store",),
    ),
    "simulate": Command(
        MORE,
        "jobs.simulate:command",
        "Simulate failures and report how long failovers take",
        "slotscope simulate --fault crash --node-timeout-ms 5000 15000 --seeds 100",
        ("fault", "hit", "seeds", "profile", "node-timeout-ms", "shards", "replicas"),
    ),
    "snapshots": Command(
        MORE,
        "jobs.snapshots:command",
        "List the snapshots in the tables",
        "slotscope snapshots",
        ("root", "json"),
    ),
    "split-rdb": Command(
        MORE,
        "jobs.split_rdb:command",
        "Cut dumps into one file per planned master",
        "slotscope split-rdb --rdb 'dumps/*.rdb' --out parts --plan latest",
        ("rdb", "out", "plan", "topology", "mode"),
    ),
}
"""Each subcommand, in the order of its help: the ten that matter first, then the others by name.  A new job is one entry here."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the subcommand that *argv* (default: the command line) names."""
    cli.main(cli.application(ABOUT, COMMANDS), argv)


def run(words: Sequence[str], *, debug: bool = False) -> int:
    """Run the command *words* in this process, so that several share one Spark session; return its exit code."""
    flags = ["--debug"] if debug and "--debug" not in words else []
    return cli.run(cli.application(ABOUT, COMMANDS), [*words, *flags])


if __name__ == "__main__":
    main()
