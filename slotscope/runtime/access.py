"""How a command gets to the servers of a live cluster: the options of all that talk to one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from slotscope.runtime.cli import Flag

if TYPE_CHECKING:
    from slotscope.servers.node_link import Access


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, slots=True)
class AccessOptions:
    """User, password and TLS; the password itself is on no command line, which every user of a machine can read."""

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
        from slotscope.servers.node_link import Access

        return Access(self.user, password, self.tls, self.tls_ca, self.tls_cert, self.tls_key, self.tls_insecure)


NO_OPTIONS = AccessOptions()
"""What holds where the user says nothing."""
