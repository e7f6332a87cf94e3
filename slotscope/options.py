"""Options that several commands share, and the kinds of options.

A command's options are one dataclass, `Request`, in the module of this package that is named after the command: a field is an option,
the text below it is its help, and the program passes an instance on.  Annotations here are values, not texts: requests that inherit
them stand in other modules.
"""

import os
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, dataclass_transform

from cyclopts import Group, Parameter

from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST, ROOT, ROOT_VARIABLE
from slotscope.runtime.stores import folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.servers.node_link import Access

Paths = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]
"""Several values after one flag, or the flag several times, or both."""

Text = Annotated[str, Parameter(show_default=False)]
"""Text that is empty by default."""


Interval = Annotated[timedelta, Parameter(show_default=lambda interval: _in_units(interval))]


def _in_units(interval: timedelta) -> str:
    """*interval* as an option takes it: 30d, 12h, 45s."""
    seconds = interval.total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h")):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _listed(values: tuple[object, ...]) -> str:
    return " ".join(map(str, values))


Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1, show_default=_listed)]
Fractions = Annotated[tuple[float, ...], Parameter(consume_multiple=1, show_default=_listed)]
Texts = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=_listed)]

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""A switch that is off until it is given; a plain ``bool`` or ``bool | None`` has a ``--no-`` form
beside it.
"""

SHARED = Parameter(group=Group("Common options", sort_key=99))
Html = Annotated[str | None, Parameter(help="Path of the HTML report. Default: a file in ROOT/reports")]
Cluster = Annotated[str | None, Parameter(help="Cluster of the latest snapshot; needed if the tables hold several")]
NewCluster = Annotated[
    str | None, Parameter(help="Name of the cluster. Default: known by its nodes, else made of a node id")
]
NewSnapshot = Annotated[
    str | None, Parameter(help="Name of the snapshot; an existing one is overwritten. Default: time and cluster")
]
Topology = Annotated[
    str | None,
    Parameter(
        help="Output of CLUSTER NODES, SHARDS or SLOTS, a nodes.conf, or recorded polls. Default: no owners of slots"
    ),
]
Rdb = Annotated[
    Paths,
    Parameter(
        help="RDB dumps: files, globs, folders, URIs, gzip, zstd; redis://HOST:PORT takes a dump of a live server"
    ),
]
MigrationPath = Annotated[
    Literal["auto", "setslot", "migrateslots", "migration-import"],
    Parameter(
        help="Migration: setslot (any version, key by key), migrateslots (Valkey 9), migration-import (Redis 8.4), auto (fastest supported)"
    ),
]
BytesPerSecond = Annotated[float, Parameter(help="Read rate limit per live server, in bytes per second")]
FromMaster = Annotated[Flag, Parameter(help="Dumps of live masters too, which fork for it")]
LogZone = Annotated[str, Parameter(help="Time zone of logs without one, as Europe/Berlin or +01:00")]
LogNode = Annotated[
    Paths,
    Parameter(
        help="Owner of a log as FILE=NODE: path or file name, and id, id prefix, ip:port or port. Default: detected"
    ),
]
NodeTimeout = Annotated[int | None, Parameter(help="cluster-node-timeout in ms. Default: derived from the traffic")]
ServerVersion = Annotated[
    str | None,
    Parameter(
        help="Server version: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: detected"
    ),
]
Duration = Annotated[float | None, Parameter(help="Run time in seconds. Default: until Ctrl-C or SIGTERM")]
At = Annotated[
    str | None, Parameter(help="Time: ISO 8601 (default UTC), or s, ms, µs, ns since 1970. Default: last evidence")
]
Rate = Annotated[
    float | None, Parameter(help="Commands per second and node, at most. Default: as many as keep a server half busy")
]

Root = Annotated[str, SHARED, Parameter(env_var=ROOT_VARIABLE)]
T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def options(kind: type[T]) -> type[T]:
    """Make *kind* a frozen dataclass; its fields are options of their own names, or arguments where ``kw_only`` is False."""
    return Parameter(name="*")(dataclass(frozen=True, kw_only=True, slots=True)(kind))


@options
class Plain:
    """Options of every command that needs no Spark."""

    quiet: Annotated[Flag, SHARED] = False
    """No output except errors; exit code, tables and page hold the result"""
    debug: Annotated[Flag, SHARED] = False
    """Trace of an error, and messages of Spark"""


@options
class TableOptions(Plain):
    """Options of every command that reads tables, and needs no Spark for it."""

    root: Root = ROOT
    """Folder or URI of the tables, in ROOT/{bronze,silver,gold}"""
    json: Annotated[Flag, SHARED] = False
    """Output as JSON"""

    def __post_init__(self) -> None:
        """Refuse a root on a file system that is not supported."""
        object.__setattr__(self, "root", folder_of(self.root))


@options
class PlanOptions(TableOptions):
    """Options of every command about one plan."""

    plan: str = "latest"
    """Id of the plan, a unique prefix of it, or latest"""


@options
class ModeOptions(TableOptions):
    """Options of every command that reads inputs into tables."""

    mode: Annotated[Literal["strict", "permissive"], SHARED] = "strict"
    """Bad input: strict stops at the first record; permissive records it in bronze/bad_records and continues (exit code 3)"""

    @property
    def permissive(self) -> bool:
        """Whether to go on after bad input."""
        return self.mode == "permissive"


@options
class Common(ModeOptions):
    """Options of every command that works with tables on Spark."""

    master: Annotated[str | None, SHARED] = None
    """Spark master: local[2], spark://HOST:PORT, sc://HOST:PORT (Spark Connect), yarn. Default: that of spark-submit, else this machine"""
    conf: Annotated[Paths, SHARED] = ()
    """Spark settings as KEY=VALUE, over those of the program (docs/clusters.md)"""
    metrics: Annotated[str | None, SHARED] = None
    """PORT for Prometheus to scrape, or NAME.prom file for its textfile collector: times, lag, bytes and rows of the last complete run per cluster"""

    def __post_init__(self) -> None:
        """Refuse a root on a file system that is not supported, and settings that are not Spark's."""
        TableOptions.__post_init__(self)
        self.spark_conf()

    def spark_conf(self) -> dict[str, str]:
        """The settings of Spark that were given here; raises InputError for others."""
        for pair in self.conf:
            if not pair.startswith("spark.") or "=" not in pair:
                raise InputError(f"--conf {pair.partition('=')[0]}: write KEY=VALUE, the key of a setting of Spark")
        return {key: value for key, _, value in (pair.partition("=") for pair in self.conf)}

    def session(self, app: str) -> "SparkSession":
        """Start the Spark session that the options ask for."""
        from slotscope.runtime.run_metrics import metrics_writer
        from slotscope.runtime.spark.session import spark_session
        from slotscope.runtime.storage.runs import observers

        observers[:] = [] if self.metrics is None else [metrics_writer(self.metrics)]
        return spark_session(app, master=self.master, verbose=self.debug, conf=self.spark_conf())


@options
class SnapshotOptions(Common):
    """Options of every command that writes a snapshot."""

    snapshot: NewSnapshot = None
    cluster: NewCluster = None


@options
class Recorded(TableOptions):
    """Options of every command that reads a history."""

    snapshot: str = LATEST
    """Name of the snapshot, or latest"""
    cluster: Cluster = None

    @property
    def name(self) -> str:
        """The name of the snapshot that is meant; raises InputError where there is none, or are several clusters."""
        from slotscope.runtime.storage.runs import REPLAY_JOBS, find_name

        return find_name(self.root, self.snapshot, REPLAY_JOBS, self.cluster)


@options
class LogOptions(Common):
    """Options of every command that reads logs of servers."""

    log_zone: LogZone = "UTC"
    log_node: LogNode = ()


@options
class AccessOptions:
    """How a command gets to the servers of a live cluster; the password itself is on no command line, which every user of a machine can read."""

    user: str | None = None
    """ACL user. Default: the default user"""
    password_env: str = "SLOTSCOPE_PASSWORD"
    """Environment variable with the password; unset: no password"""
    tls: Flag = False
    """Connection with TLS"""
    tls_ca: str | None = None
    """CA certificates file. Default: those of the system"""
    tls_cert: str | None = None
    """Client certificate file"""
    tls_key: str | None = None
    """Client key file"""
    tls_insecure: Flag = False
    """No verification of server certificates"""

    def password(self) -> str | None:
        """The password in the environment, None for none."""
        return os.environ.get(self.password_env)

    def arguments(self) -> list[str]:
        """Return these options as arguments of a command line."""
        given = [
            (option.name, value) for option in fields(self) if (value := getattr(self, option.name)) != option.default
        ]
        return [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given]

    def with_password(self, password: str | None) -> "Access":
        """How to connect, with *password*."""
        from slotscope.servers.node_link import Access

        return Access(self.user, password, self.tls, self.tls_ca, self.tls_cert, self.tls_key, self.tls_insecure)


BYTES_PER_SECOND = 50e6
"""Default rate of a live server's dump."""
NO_OPTIONS = AccessOptions()
"""Defaults of access."""
