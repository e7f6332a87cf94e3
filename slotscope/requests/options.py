"""Options that several commands share, and the kinds of options.

A command's options are one dataclass, `Request`, in the module of this package that is named after the command: a field is an option,
the text below it is its help, and an instance is what the program passes on.  Annotations here are values, not texts: requests that inherit
them stand in other modules.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from slotscope.servers.node_link import Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Paths = Annotated[tuple[str, ...], Parameter(consume_multiple=1, show_default=False)]
"""Several values after one flag, or the flag several times, or both."""

Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=1)]
Fractions = Annotated[tuple[float, ...], Parameter(consume_multiple=1)]

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""A switch that is off until it is given; a plain ``bool`` or ``bool | None`` has a ``--no-`` form
beside it.
"""

SHARED = Parameter(group=Group("Common options", sort_key=99))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """Options of every command that works with tables on Spark."""

    root: Annotated[str, SHARED]
    """Folder of the tables: they are written to ROOT/{bronze,silver,gold}."""
    mode: Annotated[Literal["strict", "permissive"], SHARED] = "strict"
    """What to do with bad input: stop at the first (strict), or write it to bronze/bad_records and go on
    (permissive).
    """
    master: Annotated[str | None, SHARED] = None
    """Where Spark runs: local[2], spark://HOST:PORT, yarn …; default: what spark-submit says, else this
    machine.
    """
    conf_file: Annotated[str | None, SHARED] = None
    """File of settings that replace those of conf/slotscope.toml."""
    debug: Annotated[Flag, SHARED] = False
    """Show the trace of an error, and Spark's own messages."""

    @property
    def permissive(self) -> bool:
        """Whether to go on after bad input."""
        return self.mode == "permissive"

    def session(self, app: str) -> "SparkSession":
        """Start the Spark session that the options ask for."""
        from slotscope.runtime.session import spark_session

        return spark_session(app, master=self.master, verbose=self.debug)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
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

    def with_password(self, password: str | None) -> Access:
        """How to connect, with *password*."""
        return Access(self.user, password, self.tls, self.tls_ca, self.tls_cert, self.tls_key, self.tls_insecure)


NO_OPTIONS = AccessOptions()
"""What holds where the user says nothing."""
