"""Options that several commands share, and the kinds of options.

A command's options are one dataclass, `Request`, in the module of this package that is named after the command: a field is an option,
the text below it is its help, and an instance is what the program passes on.  Annotations here are values, not texts: requests that inherit
them stand in other modules.
"""

import os
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, dataclass_transform

from cyclopts import Group, Parameter

from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST, ROOT_VARIABLE, default_root
from slotscope.runtime.storage.stores import check_conf, folder_of, is_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.servers.node_link import Access

Paths = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]
"""Several values after one flag, or the flag several times, or both."""

Text = Annotated[str, Parameter(show_default=False)]
"""Text that is empty by default."""
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1)]
Fractions = Annotated[tuple[float, ...], Parameter(consume_multiple=1)]

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""A switch that is off until it is given; a plain ``bool`` or ``bool | None`` has a ``--no-`` form
beside it.
"""

SHARED = Parameter(group=Group("Common options", sort_key=99))

Root = Annotated[str, SHARED, Parameter(env_var=ROOT_VARIABLE)]
T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def options(kind: type[T]) -> type[T]:
    """Make *kind* a frozen dataclass whose fields are options of their own names, or arguments where ``kw_only`` is False."""
    return Parameter(name="*")(dataclass(frozen=True, kw_only=True, slots=True)(kind))


@options
class Plain:
    """Options of every command that needs no Spark."""

    quiet: Annotated[Flag, SHARED] = False
    """Print nothing but errors: the exit code, the tables and the page say how it went."""
    debug: Annotated[Flag, SHARED] = False
    """Show the trace of an error."""


@options
class TableOptions(Plain):
    """Options of every command that reads tables, and needs no Spark for it."""

    root: Root = field(default_factory=default_root)
    """Folder of the tables: they are in ROOT/{bronze,silver,gold}."""
    json: Annotated[Flag, SHARED] = False
    """Print JSON instead of words."""

    def __post_init__(self) -> None:
        """Refuse a root on a file system that is not supported."""
        object.__setattr__(self, "root", folder_of(self.root))


@options
class PlanOptions(TableOptions):
    """Options of every command about one plan."""

    plan: str = "latest"
    """Id of the plan, the beginning of it, or latest."""


@options
class LiveOptions(Plain):
    """Options of every command that is a member of a live cluster."""

    bind: str = "127.0.0.1"
    """Address to listen on."""
    duration: float | None = None
    """Seconds after which to end. Default: until Ctrl-C."""
    password_env: str = "SLOTSCOPE_PASSWORD"
    """Environment variable that holds the password of the user; not set: no password."""


@options
class Common:
    """Options of every command that works with tables on Spark."""

    root: Root = field(default_factory=default_root)
    """Folder of the tables: they are written to ROOT/{bronze,silver,gold}."""
    json: Annotated[Flag, SHARED] = False
    """Print JSON instead of words."""
    mode: Annotated[Literal["strict", "permissive"], SHARED] = "strict"
    """What to do with bad input: stop at the first (strict), or write it to bronze/bad_records and go on
    (permissive).
    """
    master: Annotated[str | None, SHARED] = None
    """Where Spark runs: local[2], spark://HOST:PORT, yarn …; default: what spark-submit says, else this
    machine.
    """
    conf: Annotated[Paths, SHARED] = ()
    """KEY=VALUE: a setting of Spark, over those that come with the program (docs/clusters.md)."""
    catalog: Annotated[str | None, SHARED] = None
    """SCHEMA or CATALOG.SCHEMA of Spark's catalog, Hive's or Unity: what is written is registered there, where it lies (docs/clusters.md)."""
    metrics: Annotated[str | None, SHARED] = None
    """File NAME.prom for Prometheus' textfile collector: when a run of each cluster was last complete, its seconds, bytes and rows."""
    conf_file: Annotated[str | None, SHARED] = None
    """File of settings that replace those of conf/slotscope.toml."""
    quiet: Annotated[Flag, SHARED] = False
    """Print nothing but errors: the exit code, the tables and the page say how it went."""
    debug: Annotated[Flag, SHARED] = False
    """Show the trace of an error, and Spark's own messages."""

    def __post_init__(self) -> None:
        """Refuse a root on a file system that is not supported, and settings that are not Spark's."""
        object.__setattr__(self, "root", folder_of(self.root))
        self.spark_conf()

    def spark_conf(self) -> dict[str, str]:
        """The settings of Spark that were given here; raises InputError for others, and for the credentials of S3."""
        for words in self.conf:
            if not words.startswith("spark.") or "=" not in words:
                raise InputError(f"--conf {words.partition('=')[0]}: write KEY=VALUE, the key of a setting of Spark")
        conf = {key: value for key, _, value in (words.partition("=") for words in self.conf)}
        check_conf(conf)
        return conf

    @property
    def permissive(self) -> bool:
        """Whether to go on after bad input."""
        return self.mode == "permissive"

    @property
    def spark_paths(self) -> tuple[str, ...]:
        """What Spark itself may read and write."""
        return (self.root,)

    def session(self, app: str) -> "SparkSession":
        """Start the Spark session that the options ask for; raises InputError where the root cannot be written."""
        from slotscope.runtime.run_metrics import metrics_writer
        from slotscope.runtime.spark.session import spark_session
        from slotscope.runtime.storage.runs import observe_runs
        from slotscope.runtime.storage.stores import check_writable
        from slotscope.sql.catalog import check_catalog, register_tables

        schema = None if self.catalog is None else check_catalog(self.catalog)
        told = [] if self.metrics is None else [metrics_writer(self.metrics)]
        check_writable(self.root)
        spark = spark_session(
            app, master=self.master, verbose=self.debug, conf=self.spark_conf(), on_s3=any(map(is_s3, self.spark_paths))
        )
        if schema is not None:
            told.append(lambda run: register_tables(spark, run.root, schema, run.rows))
        observe_runs(*told)
        return spark


@options
class SnapshotOptions(Common):
    """Options of every command that writes a snapshot."""

    snapshot: str | None = None
    """Name of the snapshot; what the tables hold of one that has it is replaced. Default: the time, 2026-11-23T020000Z, and the cluster's name."""
    cluster: str | None = None
    """Name of the cluster. Default: the one that a node was seen in before, else one made of a node's id."""


@options
class Recorded(TableOptions):
    """Options of every command about what history wrote."""

    snapshot: str = LATEST
    """Name of the snapshot that history wrote, or latest."""
    cluster: str | None = None
    """Cluster whose latest snapshot is meant, where there are several."""

    @property
    def name(self) -> str:
        """The name of the snapshot that is meant; raises InputError where there is none, or are several clusters."""
        from slotscope.runtime.storage.snapshot_names import REPLAY_JOBS, find_name

        return find_name(self.root, self.snapshot, REPLAY_JOBS, self.cluster)


@options
class LogOptions(Common):
    """Options of every command that reads logs of servers."""

    log_zone: str = "UTC"
    """Time zone of the servers whose logs do not name it: Europe/Berlin, +01:00."""
    log_node: Paths = ()
    """FILE=NODE: whose log FILE (a path or its last part) is; NODE is an id or its beginning, ip:port or port. Default: seen from its lines or name."""


@options
class AccessOptions:
    """How a command gets to the servers of a live cluster; the password itself is on no command line, which every user of a machine can read."""

    user: str | None = None
    """ACL user. Default: the default user."""
    password_env: str = "SLOTSCOPE_PASSWORD"
    """Environment variable that holds the password; not set: no password."""
    tls: Flag = False
    """Connect with TLS."""
    tls_ca: str | None = None
    """Certificates of the authorities that are trusted. Default: the system's."""
    tls_cert: str | None = None
    """Certificate of this client."""
    tls_key: str | None = None
    """Its key."""
    tls_insecure: Flag = False
    """Do not check the servers' certificates."""

    def password(self) -> str | None:
        """The password in the environment, None for none."""
        return os.environ.get(self.password_env)

    def words(self) -> list[str]:
        """The words of a command line that say the same."""
        given = [(one.name, value) for one in fields(self) if (value := getattr(self, one.name)) != one.default]
        return [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given]

    def with_password(self, password: str | None) -> "Access":
        """How to connect, with *password*."""
        from slotscope.servers.node_link import Access

        return Access(self.user, password, self.tls, self.tls_ca, self.tls_cert, self.tls_key, self.tls_insecure)


BYTES_PER_SECOND = 50e6
"""Of a dump that a live server makes."""
NO_OPTIONS = AccessOptions()
"""What holds where the user says nothing."""
