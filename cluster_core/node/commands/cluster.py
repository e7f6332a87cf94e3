"""Every subcommand of CLUSTER that a node carries out, by its name in lower case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.node.commands.membership import MEMBERSHIP_COMMANDS
from cluster_core.node.commands.reports import REPORT_COMMANDS
from cluster_core.node.commands.slots import SLOT_COMMANDS
from cluster_core.node.state import NodeState

CLUSTER_COMMANDS: Final[dict[str, Callable[[NodeState, list[str]], Any]]] = {
    **REPORT_COMMANDS,
    **SLOT_COMMANDS,
    **MEMBERSHIP_COMMANDS,
}
"""Functions of the node and the arguments behind the subcommand; they return a reply or raise ProtocolError with the
text of the error.
"""
