"""Read the placement file: weights, capacities, zones, drains and pins of nodes.

It is TOML with known names only (example: `docs/rebalancing.md`); `PlanError` names file, line and reason.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cluster_core.errors import DecodeError, PlanError
from cluster_core.rebalance.goal.problem import Master
from cluster_core.rebalance.stored_plan import PlannedNode
from cluster_core.sizes import UNITS
from cluster_core.slots.slot_set import parse_range
from cluster_core.topology.node import Node, Topology

NODES_MAX = 16384
TEXT_CHARS_MAX = 16 << 20
Path = tuple[str | int, ...]
"""Keys and list positions down to a value: ``("nodes", 1, "weight")``."""
Number = int | float
_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_WORD = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_TOP = ("zone_share_max", "pinned_slots", "goals", "defaults", "nodes")
_GOAL = ("tolerance", "soft", "priority")
_DEFAULTS = ("weight", "zone", "maxmemory", "capacity")
_ROLES = ("drain", "exclude", "add")
_NODE = ("node", *_DEFAULTS, *_ROLES)


@dataclass(frozen=True, slots=True)
class TomlSource:
    """The file *source* with the line of each table and key."""

    source: str
    lines: Mapping[Path, int]

    def fault(self, path: Path, reason: str) -> PlanError:
        """Return an error with the line of *path*, or of the nearest enclosing key."""
        while path and path not in self.lines:
            path = path[:-1]
        return PlanError(f"{self.source}: line {self.lines.get(path, 1)}: {reason}")

    def table(self, path: Path, value: Any, names: Sequence[str] = ()) -> dict[str, Any]:
        """Return *value* if it is a table with only keys of *names* (empty: any keys)."""
        table: dict[str, Any] = self.typed(path, value, dict, "a table")
        for name in table:
            if names and name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
                raise self.fault((*path, name), f"{name} is not known{hint}")
        return table

    def number(self, path: Path, value: Any) -> Number:
        """Return *value* if it is a finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(path, f"{path[-1]} must be a number, not {value!r}")
        if not math.isfinite(value):
            raise self.fault(path, f"{path[-1]} must be finite, not {value}")
        return value

    def above_zero(self, path: Path, value: Any, hint: str = "") -> Number:
        """Return *value* if it is a number above 0."""
        if self.number(path, value) <= 0:
            raise self.fault(path, f"{path[-1]} must be more than 0, not {value}{hint}")
        return self.number(path, value)

    def typed(self, path: Path, value: Any, kind: type, name: str) -> Any:
        """Return *value* if it is of *kind*, which errors call *name*."""
        if not isinstance(value, kind):
            raise self.fault(path, f"{path[-1]} must be {name}, not {value!r}")
        return value

    def flag(self, path: Path, table: Mapping[str, Any], name: str) -> bool:
        """Return the value of *name* in the *table* at *path* if it is true or false; False if missing."""
        return bool(self.typed((*path, name), table.get(name, False), bool, "true or false"))


@dataclass(frozen=True, slots=True)
class NodeWish:
    """Settings of one node, at *path* of the file; *zone* None is the node's own."""

    node: str = ""
    path: Path = ()
    weight: Number = 1
    zone: str | None = None
    capacity: Mapping[str, Number] = field(default_factory=dict)
    drained: bool = False
    excluded: bool = False
    added: bool = False


USUAL = NodeWish()
"""Settings of all nodes by default."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A resource to balance; None if not in the file. The soft goal with the largest *priority* is dropped first."""

    tolerance: float | None = None
    soft: bool | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class NodeOption:
    """A node given by the command line *option*, with its weight, or None to drain it."""

    option: str
    node: str
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """The file and the nodes of the command line; *usual* are the settings of other nodes."""

    located: TomlSource
    nodes: tuple[NodeWish, ...] = ()
    pinned: tuple[int, ...] = ()
    zone_share_max: Number | None = None
    usual: NodeWish = USUAL
    goals: Mapping[str, Goal] = field(default_factory=dict)
    options: tuple[NodeOption, ...] = ()


NOTHING = Placement(TomlSource("", {}))
"""An empty file."""


def read_placement(text: str, source: str = "<placement>") -> Placement:
    """Parse a placement in TOML; PlanError names source, line and reason."""
    if len(text) > TEXT_CHARS_MAX:
        raise PlanError(f"{source}: {len(text)} characters are too many for a placement")
    located = TomlSource(source, _lines(text))
    values = located.table((), _parsed(text, source), _TOP)
    defaults = located.table(("defaults",), values.get("defaults", {}), _DEFAULTS)
    listed = values.get("nodes", [])
    if not isinstance(listed, list) or len(listed) > NODES_MAX:
        raise located.fault(("nodes",), f"nodes is a list of at most {NODES_MAX} tables")
    share = values.get("zone_share_max")
    if share is not None and not 0 < located.number(("zone_share_max",), share) <= 1:
        raise located.fault(("zone_share_max",), f"zone_share_max is a share, over 0 and at most 1, not {share}")
    usual = _settings(located, ("defaults",), defaults, USUAL)
    return Placement(
        located,
        tuple(_wish(located, ("nodes", number), entry, usual) for number, entry in enumerate(listed)),
        _pinned(located, values.get("pinned_slots", [])),
        share,
        usual,
        {
            name: _goal(located, ("goals", name), goal)
            for name, goal in located.table(("goals",), values.get("goals", {})).items()
        },
    )


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        at = line[1] if line else text.count("\n") + 1 if "end of document" in str(error) else 1
        reason = re.sub(r"\s*\(at line.*", "", str(error)) or "nested too deeply"
        raise PlanError(f"{source}: line {at}: {reason}") from error
    except ValueError as error:  # too many digits (`sys.set_int_max_str_digits`)
        number = _LONG_NUMBER.search(text)
        at = text.count("\n", 0, number.start()) + 1 if number else 1
        raise PlanError(f"{source}: line {at}: a number of too many digits") from error


def _lines(text: str) -> dict[Path, int]:
    """Return the line of each table and key; items of inline tables and lists have their value's line."""
    lines: dict[Path, int] = {}
    table: Path = ()
    number_of_node = -1
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _key_path(header[2])
            if table[:1] == ("nodes",):
                number_of_node += header[1] == "[["
                table = ("nodes", max(number_of_node, 0), *table[1:])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_key_path(key[1])), number)
    return lines


def _key_path(text: str) -> Path:
    return tuple(word.strip("\"'") for word in _WORD.findall(text))


def _goal(located: TomlSource, path: Path, entry: Any) -> Goal:
    values = located.table(path, entry, _GOAL)
    tolerance, priority = values.get("tolerance"), values.get("priority", 0)
    if tolerance is not None and located.number((*path, "tolerance"), tolerance) < 0:
        raise located.fault((*path, "tolerance"), f"tolerance must not be negative, not {tolerance}")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise located.fault((*path, "priority"), f"priority must be a whole number, not {priority!r}")
    return Goal(tolerance, located.flag(path, values, "soft") if "soft" in values else None, priority)


def _wish(located: TomlSource, path: Path, entry: Any, usual: NodeWish) -> NodeWish:
    values = located.table(path, entry, _NODE)
    name = values.get("node")
    if not isinstance(name, str) or not name:
        raise located.fault((*path, "node"), "a node needs a name: node = its id or host:port")
    drained, excluded, added = (located.flag(path, values, role) for role in _ROLES)
    if drained + excluded + added > 1:
        roles = [role for role in _ROLES if values.get(role)]
        raise located.fault((*path, roles[1]), f"{name} cannot both {roles[0]} and {roles[1]}")
    wish = _settings(located, path, values, usual)
    return replace(wish, node=name, path=path, drained=drained, excluded=excluded, added=added)


def _settings(located: TomlSource, path: Path, values: Mapping[str, Any], usual: NodeWish) -> NodeWish:
    """Return the weight, zone and capacity in the table at *path*, by default those of *usual*."""
    weight, zone = values.get("weight", usual.weight), values.get("zone", usual.zone)
    if zone is not None:
        located.typed((*path, "zone"), zone, str, "text in quotes")
    listed = located.table((*path, "capacity"), values.get("capacity", {}))
    sizes = {name: _size(located, (*path, "capacity", name), value) for name, value in listed.items()}
    if "maxmemory" in values:
        sizes["memory_bytes"] = _size(located, (*path, "maxmemory"), values["maxmemory"])
    located.above_zero((*path, "weight"), weight, "; drain = true empties a node")
    return replace(usual, weight=weight, zone=zone, capacity={**usual.capacity, **sizes})


def _pinned(located: TomlSource, listed: Any) -> tuple[int, ...]:
    path: Path = ("pinned_slots",)
    if not isinstance(listed, list):
        raise located.fault(path, "pinned_slots is a list of slots and ranges")
    pinned: set[int] = set()
    for number, entry in enumerate(listed):
        if isinstance(entry, bool) or not isinstance(entry, int | str):
            raise located.fault((*path, number), f"pinned_slots: {entry!r} is not a slot")
        try:
            first, last = parse_range(str(entry))
        except DecodeError as error:
            raise located.fault((*path, number), f"pinned_slots: {entry!r}: {error.reason}") from error
        pinned.update(range(first, last + 1))
    return tuple(sorted(pinned))


def _size(located: TomlSource, path: Path, value: Any) -> Number:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None or match[2].lower() not in UNITS:
            raise located.fault(path, f"{path[-1]}: {value!r} is not a size; write 4gb, 512mb or a number")
        value = float(match[1]) * UNITS[match[2].lower()]
        value = int(value) if value == int(value) else value
    return located.above_zero(path, value)


def masters_of(
    topology: Topology,
    placement: Placement = NOTHING,
    resources: Iterable[str] = (),
    capacities: Mapping[str, Mapping[str, Number]] | None = None,
) -> tuple[list[Master], list[PlannedNode]]:
    """Return the masters of *topology* and *placement*, with capacities of *resources* only.

    *placement* overrides the servers' *capacities* (by node id). Failed masters without slots, and those without address,
    are omitted. PlanError names the line of an unknown node, a replica, or a duplicate.
    """
    usual, known = placement.usual, set(resources)
    wishes: dict[str, NodeWish] = {}
    added: list[NodeWish] = []
    for wish in placement.nodes:
        fault = partial(placement.located.fault, (*wish.path, "node"))
        node = _find(wish.node, topology, fault, may_join=wish.added)
        name = wish.node if node is None else node.id
        if name in wishes:
            raise placement.located.fault(wish.path, f"{wish.node} is named twice")
        wishes[name] = wish
        if node is None:
            added.append(wish)
    for option in placement.options:
        _apply(option, placement, topology, wishes)
    masters: list[Master] = []
    nodes: list[PlannedNode] = []

    def add(name: str, address: str, wish: NodeWish, zone: str = "", epoch: int = 0) -> None:
        zone = zone if wish.zone is None else wish.zone
        most = {**(capacities or {}).get(name, {}), **wish.capacity}
        capacity = {resource: limit for resource, limit in most.items() if not known or resource in known}
        masters.append(Master(name, wish.weight, zone, capacity, wish.drained, wish.excluded))
        nodes.append(PlannedNode(name, address, zone, epoch))

    for node in topology.masters():
        if not node.is_gone or node.id in wishes:
            zone = node.aux.get("availability-zone", "")
            add(node.id, _address(node), wishes.get(node.id, usual), zone, node.config_epoch)
    for wish in added:
        add(wish.node, wish.node if ":" in wish.node else "", wish)
    return masters, nodes


def _address(node: Node) -> str:
    host = node.ip or node.hostname or node.endpoint or ""
    return f"[{host}]:{node.port}" if ":" in host else f"{host}:{node.port}"


def _apply(option: NodeOption, placement: Placement, topology: Topology, wishes: dict[str, NodeWish]) -> None:
    """Apply a weight or drain of the command line, which overrides the file."""
    node = _find(option.node, topology, lambda reason: PlanError(f"{option.option} {option.node}: {reason}"))
    assert node is not None
    wish = wishes.get(node.id, placement.usual)
    if option.weight is None:
        wishes[node.id] = replace(wish, drained=True, excluded=False)
    else:
        wishes[node.id] = replace(wish, weight=option.weight, drained=False)


def _find(
    name: str, topology: Topology, fault: Callable[[str], PlanError], *, may_join: bool = False
) -> Node | None:  # fmt: skip
    """Return the master *name*, None if it may join; else raise *fault* with the reason."""
    matches = [
        node
        for node in topology.nodes
        if name in (node.id, node.address, _address(node), f"{node.hostname}:{node.port}")
        or (len(name) >= 8 and node.id.startswith(name))
    ]
    if len(matches) > 1:
        raise fault(f"{name} could be {len(matches)} nodes of the cluster")
    if not matches:
        if may_join:
            return None
        raise fault(f"{name} is not in the cluster; add = true in a placement file if it is to join")
    if not matches[0].is_master:
        raise fault(f"{name} is a replica of {matches[0].master_id}: name its master")
    return matches[0]


def owners_of(topology: Topology) -> list[str]:
    """Return the owner's node id by slot; PlanError for unassigned slots."""
    missing = topology.uncovered()
    if missing:
        raise PlanError(f"nobody owns slots {missing}: repair the cluster first")
    return [owner or "" for owner in topology.slot_map().owners()]
