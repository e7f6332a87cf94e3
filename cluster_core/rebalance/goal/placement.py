"""What the people who run a cluster say about its nodes: weights, capacities, zones, what drains, what stays put.

A small TOML file::

    zone_share_max = 0.5             # no zone holds more than this share of any resource
    pinned_slots = ["0-99", 866]     # stay where they are

    [goals.keys]                     # a resource to balance
    tolerance = 0.2                  # above the fair share
    soft = true                      # given up where no plan keeps all limits; a hard goal never is
    priority = 2                     # of soft goals, the one with the largest number is given up first

    [defaults]                       # of every node
    zone = "a"

    [[nodes]]
    node = "10.0.0.1:6379"           # id, the first 8 or more letters of one, or host:port
    weight = 2                       # its share relative to the others; default 1
    zone = "b"                       # zone or rack
    maxmemory = "4gb"                # capacity in memory_bytes
    capacity = { keys = 10_000_000, serialized_bytes = "2gb" }
    drain = true                     # is to end empty; or
    exclude = true                   # is left alone; or
    add = true                       # will join the cluster: need not be in it yet

Every word is checked; `PlanError` names file, line and reason.
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
_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
_WORD = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_TOP = ("zone_share_max", "pinned_slots", "goals", "defaults", "nodes")
_GOAL = ("tolerance", "soft", "priority")
_NODE = ("node", "weight", "zone", "maxmemory", "capacity", "drain", "exclude", "add")


@dataclass(frozen=True, slots=True)
class Located:
    """The *values* of a file, and the *lines* of its paths, which TOML parsers do not tell; *source* names it."""

    source: str
    values: dict[str, Any]
    lines: Mapping[Path, int]

    def fault(self, path: Path, reason: str) -> PlanError:
        """Return the error that names the line of *path*, or of the nearest thing around it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return PlanError(f"{self.source}: line {self.lines.get(path, 1)}: {reason}")


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What is said about one node; *path* is where it is said."""

    node: str
    path: Path
    weight: int | float = 1
    zone: str | None = None
    capacity: Mapping[str, int | float] = field(default_factory=dict)
    drained: bool = False
    excluded: bool = False
    added: bool = False


@dataclass(frozen=True, slots=True)
class Goal:
    """How well a resource is to be balanced; None where nothing is said.  Of soft goals, the one with the largest *priority* goes first."""

    tolerance: float | None = None
    soft: bool | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class NodeOption:
    """A node named on the command line by *option*, with its weight, or None to empty it."""

    option: str
    node: str
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A whole file, and the nodes named on the command line; without them every node is alike."""

    located: Located
    nodes: tuple[NodeWish, ...] = ()
    pinned: tuple[int, ...] = ()
    zone_share_max: int | float | None = None
    zone: str = ""
    weight: int | float = 1
    capacity: Mapping[str, int | float] = field(default_factory=dict)
    goals: Mapping[str, Goal] = field(default_factory=dict)
    options: tuple[NodeOption, ...] = ()


NOTHING = Placement(Located("", {}, {}))
"""No wishes."""


def read_placement(text: str, source: str = "<placement>") -> Placement:
    """Return the placement that *text* (TOML) describes; PlanError names source, line and reason."""
    located = _read_toml(text, source)
    _known(located, (), located.values, _TOP)
    defaults = _table(located, ("defaults",), located.values.get("defaults", {}))
    _known(located, ("defaults",), defaults, ("weight", "zone", "maxmemory", "capacity"))
    listed = located.values.get("nodes", [])
    if not isinstance(listed, list) or len(listed) > NODES_MAX:
        raise located.fault(("nodes",), "nodes is a list of at most 16384 tables")
    general = Placement(
        located,
        (),
        _pinned(located),
        _share(located, "zone_share_max"),
        _text(located, ("defaults", "zone"), defaults.get("zone", "")),
        _weight(located, ("defaults", "weight"), defaults.get("weight", 1)),
        _capacity(located, ("defaults",), defaults),
        _goals(located),
    )
    return replace(general, nodes=tuple(_wish(general, number, entry) for number, entry in enumerate(listed)))


def _read_toml(text: str, source: str) -> Located:
    if len(text) > TEXT_CHARS_MAX:
        raise PlanError(f"{source}: {len(text)} characters are too many for a placement")
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        at = line[1] if line else text.count("\n") + 1 if "end of document" in str(error) else 1
        reason = re.sub(r"\s*\(at line.*", "", str(error)) or "nested too deeply"
        raise PlanError(f"{source}: line {at}: {reason}") from error
    except ValueError as error:  # Python refuses to convert the number (`sys.set_int_max_str_digits`)
        number = _LONG_NUMBER.search(text)
        at = text.count("\n", 0, number.start()) + 1 if number else 1
        raise PlanError(f"{source}: line {at}: a number of too many digits") from error
    return Located(source, values, _lines(text))


def _lines(text: str) -> dict[Path, int]:
    """Return the line of each table and key; an item of an inline table or list has the line of its value."""
    lines: dict[Path, int] = {}
    table: Path = ()
    number_of_node = -1
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _words(header[2])
            if table[:1] == ("nodes",):
                number_of_node += header[1] == "[["
                table = ("nodes", max(number_of_node, 0), *table[1:])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_words(key[1])), number)
    return lines


def _words(text: str) -> Path:
    return tuple(word.strip("\"'") for word in _WORD.findall(text))


def _goals(located: Located) -> dict[str, Goal]:
    goals = {}
    for name, entry in _table(located, ("goals",), located.values.get("goals", {})).items():
        path: Path = ("goals", name)
        values = _table(located, path, entry)
        _known(located, path, values, _GOAL)
        tolerance, priority = values.get("tolerance"), values.get("priority", 0)
        if tolerance is not None and _number(located, (*path, "tolerance"), tolerance) < 0:
            raise located.fault((*path, "tolerance"), f"tolerance must not be negative, not {tolerance}")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise located.fault((*path, "priority"), f"priority must be a whole number, not {priority!r}")
        soft = _flag(located, (*path, "soft"), values["soft"]) if "soft" in values else None
        goals[name] = Goal(tolerance, soft, priority)
    return goals


def _share(located: Located, name: str) -> int | float | None:
    share: int | float | None = located.values.get(name)
    if share is not None and not 0 < _number(located, (name,), share) <= 1:
        raise located.fault((name,), f"{name} is a share, over 0 and at most 1, not {share}")
    return share


def _wish(general: Placement, number: int, entry: Any) -> NodeWish:
    located, path = general.located, ("nodes", number)
    values = _table(located, path, entry)
    _known(located, path, values, _NODE)
    name = values.get("node")
    if not isinstance(name, str) or not name:
        raise located.fault((*path, "node"), "a node needs a name: node = its id or host:port")
    roles = [role for role in ("drain", "exclude", "add") if _flag(located, (*path, role), values.get(role, False))]
    if len(roles) > 1:
        raise located.fault((*path, roles[1]), f"{name} cannot both {roles[0]} and {roles[1]}")
    zone = values.get("zone")
    return NodeWish(
        name,
        path,
        _weight(located, (*path, "weight"), values.get("weight", general.weight)),
        None if zone is None else _text(located, (*path, "zone"), zone),
        {**general.capacity, **_capacity(located, path, values)},
        *(role in roles for role in ("drain", "exclude", "add")),
    )


def _pinned(located: Located) -> tuple[int, ...]:
    path: Path = ("pinned_slots",)
    listed = located.values.get("pinned_slots", [])
    if not isinstance(listed, list):
        raise located.fault(path, "pinned_slots is a list of slots and ranges")
    pinned: set[int] = set()
    for number, entry in enumerate(listed):
        try:
            first, last = parse_range(str(entry))
        except DecodeError as error:
            raise located.fault((*path, number), f"pinned_slots: {entry!r}: {error.reason}") from error
        if isinstance(entry, bool) or not isinstance(entry, int | str):
            raise located.fault((*path, number), f"pinned_slots: {entry!r} is no slot")
        pinned.update(range(first, last + 1))
    return tuple(sorted(pinned))


def _capacity(located: Located, path: Path, values: Mapping[str, Any]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    capacity = _table(located, (*path, "capacity"), values.get("capacity", {}))
    for name, value in capacity.items():
        found[name] = _size(located, (*path, "capacity", name), value)
    if "maxmemory" in values:
        found["memory_bytes"] = _size(located, (*path, "maxmemory"), values["maxmemory"])
    return found


def _size(located: Located, path: Path, value: Any) -> int | float:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match is None or match[2].lower() not in UNITS:
            raise located.fault(path, f"{path[-1]}: {value!r} is no size; write 4gb, 512mb or a number")
        value = float(match[1]) * UNITS[match[2].lower()]
        value = int(value) if value == int(value) else value
    number = _number(located, path, value)
    if number <= 0:
        raise located.fault(path, f"{path[-1]} must be more than 0, not {value}")
    return number


def _weight(located: Located, path: Path, value: Any) -> int | float:
    weight = _number(located, path, value)
    if weight <= 0:
        raise located.fault(path, f"weight must be more than 0, not {value}; drain = true empties a node")
    return weight


def _number(located: Located, path: Path, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise located.fault(path, f"{path[-1]} must be a number, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise located.fault(path, f"{path[-1]} is {value}")
    return value


def _text(located: Located, path: Path, value: Any) -> str:
    if not isinstance(value, str):
        raise located.fault(path, f"{path[-1]} must be text in quotes, not {value!r}")
    return value


def _flag(located: Located, path: Path, value: Any) -> bool:
    if not isinstance(value, bool):
        raise located.fault(path, f"{path[-1]} must be true or false, not {value!r}")
    return value


def _table(located: Located, path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise located.fault(path, f"{path[-1]} must be a table, not {value!r}")
    return value


def _known(located: Located, path: Path, values: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise located.fault((*path, name), f"{name} is not known{hint}")


NOTHING_TOLD: Mapping[str, Any] = {}


def masters_of(
    topology: Topology,
    placement: Placement = NOTHING,
    resources: Iterable[str] = (),
    told: Mapping[str, Mapping[str, int | float]] = NOTHING_TOLD,
) -> tuple[list[Master], list[PlannedNode]]:
    """Return the masters of *topology* with what *placement* says of them, and those that it adds; capacities of *resources* only.

    *told* are capacities by node id that the servers have, for those of which *placement* says none.  Masters that have failed, or have no address, and hold no slots are left out.  PlanError names the line of a node that is not
    there, is a replica, or is named twice.
    """
    known = list(resources)
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
    masters, nodes = [], []
    for node in topology.masters():
        if node.is_gone and node.id not in wishes:
            continue
        zone = node.aux.get("availability-zone", "")
        masters.append(_master(node.id, wishes.get(node.id), placement, known, zone, told.get(node.id, {})))
        nodes.append(PlannedNode(node.id, _address(node), masters[-1].zone, node.config_epoch))
    for wish in added:
        masters.append(_master(wish.node, wish, placement, known, ""))
        nodes.append(PlannedNode(wish.node, wish.node if ":" in wish.node else "", masters[-1].zone, 0))
    return masters, nodes


def _address(node: Node) -> str:
    host = node.ip or node.hostname or node.endpoint or ""
    return f"[{host}]:{node.port}" if ":" in host else f"{host}:{node.port}"


def _master(
    name: str,
    wish: NodeWish | None,
    placement: Placement,
    resources: Sequence[str],
    zone: str,
    told: Mapping[str, int | float] = NOTHING_TOLD,
) -> Master:
    capacity = {**told, **(placement.capacity if wish is None else wish.capacity)}
    held = {key: value for key, value in capacity.items() if not resources or key in resources}
    if wish is None:
        return Master(name, placement.weight, placement.zone or zone, held)
    chosen = placement.zone or zone if wish.zone is None else wish.zone
    return Master(name, wish.weight, chosen, held, drained=wish.drained, excluded=wish.excluded)


def _apply(option: NodeOption, placement: Placement, topology: Topology, wishes: dict[str, NodeWish]) -> None:
    """Let the command line say the weight or the drain of a node, whatever the file says of it."""
    node = _find(option.node, topology, lambda reason: PlanError(f"{option.option} {option.node}: {reason}"))
    assert node is not None
    wish = wishes.get(node.id) or NodeWish(node.id, (), placement.weight, capacity=placement.capacity)
    if option.weight is None:
        wishes[node.id] = replace(wish, drained=True, excluded=False)
    else:
        wishes[node.id] = replace(wish, weight=option.weight, drained=False)


def _find(
    name: str, topology: Topology, fault: Callable[[str], PlanError], *, may_join: bool = False
) -> Node | None:  # fmt: skip
    """Return the master that is called *name*, None for one that may join; raises what *fault* makes of the reason."""
    found = [
        node
        for node in topology.nodes
        if name in (node.id, node.address, _address(node), f"{node.hostname}:{node.port}")
        or (len(name) >= 8 and node.id.startswith(name))
    ]
    if len(found) > 1:
        raise fault(f"{name} could be {len(found)} nodes of the cluster")
    if not found:
        if may_join:
            return None
        raise fault(f"{name} is not in the cluster; add = true in a placement file if it is to join")
    if not found[0].is_master:
        raise fault(f"{name} is a replica of {found[0].master_id}: name its master")
    return found[0]


def owners_of(topology: Topology) -> list[str]:
    """Return the node id that owns each slot; PlanError for slots that nobody owns."""
    missing = topology.uncovered()
    if missing:
        raise PlanError(f"nobody owns slots {missing}: mend the cluster before it is rebalanced")
    return [owner or "" for owner in topology.slot_map().owners()]
