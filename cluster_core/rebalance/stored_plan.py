"""A stored plan with its inputs, batches and cluster state, and its JSON document without the columns of gold/rebalance_slots.

A fraction is ``"1/3"``, a dataclass or named tuple a list of its fields. Equal plans have equal bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from cluster_core.columns import Small
from cluster_core.errors import PlanError
from cluster_core.load.unread import WHOLE, UnreadInputs
from cluster_core.rebalance.goal.problem import Problem, asked_tolerance
from cluster_core.rebalance.plan import Batch, Job, Move, Plan, PlanVerdict
from cluster_core.slots.slot_set import SlotSet, slots_by

VERSION = 3
ID_DIGITS = 12
SIZES = ("serialized_bytes", "memory_bytes")
"""Resources that count bytes, in order of preference."""
_BY_SLOT = ("loads", "owners")
_FROM_MOVES = ("moves", "owners_after")


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedNode:
    """A master of the plan; *address* is ``host:port``."""

    id: str
    address: str
    zone: str
    config_epoch: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan with all inputs of its check, execution and audit; *nodes* in the order of the problem's masters.

    *unread* are unreadable inputs; loads exclude them.
    """

    plan_id: str
    snapshot_id: str
    problem: Problem
    plan: Plan
    batches: tuple[Batch, ...]
    nodes: tuple[PlannedNode, ...]
    state_hash: str
    created_at_ms: int
    unread: UnreadInputs = WHOLE

    @property
    def ends(self) -> dict[int, tuple[str, str]]:
        """Return source and target of every moved slot."""
        return {move.slot: (move.source, move.target) for move in self.plan.moves}

    @property
    def has_headroom(self) -> bool:
        """Return whether the plan meets smaller tolerances than asked for, which its bound is about."""
        asked = asked_tolerance(self.problem, self.problem.loads)
        is_less = any(own < most for own, most in zip(self.plan.tolerance, asked, strict=False))
        return is_less and self.plan.verdict is PlanVerdict.MOVE

    @property
    def sizes(self) -> Sequence[float]:
        """Return the bytes of each slot; empty if the plan has none."""
        loads = self.problem.loads
        return next(([float(value) for value in loads[name]] for name in SIZES if name in loads), [])

    def name(self, node: str) -> str:
        """Return ``host:port (id…)``, or the id alone if it is not in the plan."""
        address = next((planned.address for planned in self.nodes if planned.id == node), "")
        return f"{address} ({node[:8]})" if address else node or "nobody"


class SlotRow(NamedTuple):
    """A slot of a plan (`gold/rebalance_slots`)."""

    slot: Annotated[Small, "0 to 16383"]
    owner: Annotated[str, "node id of its master before"]
    planned_owner: Annotated[str, "node id of its master afterwards"]
    loads: Annotated[dict[str, float], "load of the slot, by resource"]


def slot_rows(problem: Problem, plan: Plan) -> list[SlotRow]:
    """Return one row a slot, in order."""
    return [
        SlotRow(slot, owner, after, {name: float(load[slot]) for name, load in problem.loads.items()})
        for slot, (owner, after) in enumerate(zip(problem.owners, plan.owners_after, strict=True))
    ]


def write_document(
    problem: Problem,
    plan: Plan,
    batches: Sequence[Batch],
    nodes: Sequence[PlannedNode],
    unread: UnreadInputs = WHOLE,
) -> str:
    """Return the document of a plan; *unread* are the inputs that could not be read in full."""
    document = {
        "version": VERSION,
        "resources": list(problem.loads),
        "problem": {f.name: _encode(getattr(problem, f.name)) for f in dataclasses.fields(problem) if f.name not in _BY_SLOT},
        "plan": {f.name: _encode(getattr(plan, f.name)) for f in dataclasses.fields(plan) if f.name not in _FROM_MOVES},
        "batches": [[[job.source, job.target, job.ranges] for job in batch.jobs] for batch in batches],
        "nodes": [_encode(node) for node in nodes],
        **({"unread": _encode(unread)} if unread else {}),
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def hash_state(owners: Sequence[str], config_epochs: Mapping[str, int]) -> str:
    """Return the SHA-256 (hexadecimal) of the slots of each node (node id by slot) with its config epoch."""
    digest = hashlib.sha256()
    slots = slots_by((owner, slot) for slot, owner in enumerate(owners))
    for node in sorted(slots.keys() | config_epochs.keys()):
        ranges = " ".join(f"{a}-{b}" for a, b in slots.get(node, SlotSet()).ranges())
        digest.update(f"{node}\t{config_epochs.get(node, '')}\t{ranges}\n".encode())
    return digest.hexdigest()


def identify(document: str, rows: Sequence[SlotRow]) -> str:
    """Return the id of a plan: a prefix of the SHA-256 of its inputs and content."""
    digest = hashlib.sha256(document.encode())
    for row in rows:
        ratios = (value.as_integer_ratio() for value in row.loads.values())
        loads = " ".join(str(count) if part == 1 else f"{count}/{part}" for count, part in ratios)
        digest.update(f"{row.owner} {row.planned_owner} {loads}\n".encode())
    return digest.hexdigest()[:ID_DIGITS]


def read_document(
    document: str, rows: Sequence[SlotRow], *, plan_id: str, snapshot_id: str, state_hash: str, created_at_ms: int
) -> StoredPlan:
    """Return the stored plan; PlanError for a damaged document and for one of another version."""
    try:
        parts = json.loads(document)
        if parts["version"] != VERSION:
            age = "a later" if parts["version"] > VERSION else "an earlier"
            raise PlanError(
                f"plan {plan_id} was made by {age} version and cannot be read: make a new plan (slotscope rebalance HOST:PORT --new, or slotscope plan make)"
            )
        names = list(parts["resources"])
        loads = {name: [row.loads[name] for row in rows] for name in names}
        problem = Problem(loads=loads, owners=[row.owner for row in rows], **_fields(Problem, parts["problem"]))
        moves = tuple(
            Move(slot, row.owner, row.planned_owner, tuple(row.loads[name] for name in names))
            for slot, row in enumerate(rows)
            if row.owner != row.planned_owner
        )
        after = tuple(row.planned_owner for row in rows)
        plan = Plan(moves=moves, owners_after=after, **_fields(Plan, parts["plan"]))
        batches = tuple(_batch(number, jobs, loads) for number, jobs in enumerate(parts["batches"], 1))
        nodes = tuple(_decode(PlannedNode, node) for node in parts["nodes"])
        unread = _decode(UnreadInputs, parts["unread"]) if "unread" in parts else WHOLE
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError, RecursionError) as error:
        raise PlanError(f"the document of plan {plan_id} is damaged: {error}") from error
    return StoredPlan(plan_id, snapshot_id, problem, plan, batches, nodes, state_hash, created_at_ms, unread)


def _batch(number: int, jobs: Any, loads: Mapping[str, Sequence[float]]) -> Batch:
    made = []
    for source, target, ranges in jobs:
        slots = tuple(slot for first, last in ranges for slot in range(first, last + 1))
        made.append(Job(source, target, slots, tuple(sum(load[s] for s in slots) for load in loads.values())))
    return Batch(number, tuple(made))


def _encode(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if dataclasses.is_dataclass(value):
        return [_encode(getattr(value, f.name)) for f in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return {key: _encode(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(entry) for entry in value]
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fields(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    return {name: _decode(hints[name], value) for name, value in values.items()}


def _decode(kind: Any, value: Any) -> Any:
    """Convert *value* to *kind* by the annotations of this package's classes."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None or isinstance(value, int | float) or (isinstance(value, str) and Fraction not in inner):
            return value
        plain = (int, float, types.NoneType)
        return _decode(
            Fraction if isinstance(value, str) else next(k for k in reversed(inner) if k not in plain), value
        )
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(value)
    if origin is tuple and inner[1] is not Ellipsis:
        return tuple(_decode(part, entry) for part, entry in zip(inner, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(inner[1], entry) for key, entry in value.items()}
    if origin is not None:
        return tuple(_decode(inner[0], entry) for entry in value)
    if names := getattr(kind, "_fields", ()) or tuple(getattr(kind, "__dataclass_fields__", ())):
        hints = _hints(kind)  # later fields may be missing
        return kind(*(_decode(hints[n], entry) for n, entry in zip(names, value, strict=len(value) > len(names))))
    return value
