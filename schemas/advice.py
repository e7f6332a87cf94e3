"""Tables of `slotscope advise`: memory under other conditions, saving curves, ranked savings."""

from __future__ import annotations

from schemas.table import BYTES, FLAG, INTEGER, LONG, TEXT, optional, required, snapshot_table

MEMORY_CONDITIONS = snapshot_table(
    "gold/memory_conditions",
    "Memory of a snapshot's keys under other server versions and allocators, by type, master, slot and prefix.",
    [
        required("server", TEXT, "version: valkey 9.1"),
        required("allocator", TEXT, "jemalloc, jemalloc-16 or libc"),
        required("scope", TEXT, "cluster, type, node, slot or prefix"),
        required("scope_value", BYTES, "type, node id, slot number or prefix; empty for the cluster"),
        optional("scope_value_text", TEXT, "scope_value as text, escaped as in the reports"),
        required("now_bytes", LONG, "estimated memory now"),
        required("memory_bytes", LONG, "estimated memory after a load by that server"),
        required(
            "unmeasured_keys",
            LONG,
            "keys counted as now: modules, hashes with expiring fields, damaged streams",
        ),
    ],
    key=("server", "allocator", "scope", "scope_value"),
)

SAVING_CURVES = snapshot_table(
    "gold/saving_curves",
    "Savings and cost of larger limits for packed values.",
    [
        required("setting", TEXT, "name of the server setting"),
        required("value", LONG, "value of the setting"),
        required("keys", LONG, "keys that become packed"),
        required(
            "saved_bytes",
            LONG,
            "estimated memory saved; negative for lists with more rounding per node",
        ),
        required("walked_max", LONG, "most elements (lists: bytes) that one command then walks"),
        required("is_knee", FLAG, "recommended value: the first with 80 % of the largest saving"),
    ],
    key=("setting", "value"),
)

SAVINGS = snapshot_table(
    "gold/savings",
    "Changes that save memory, ranked. Counted changes never claim the same bytes.",
    [
        required("rank", INTEGER, "rank by saving; counted changes first"),
        required(
            "kind",
            TEXT,
            "upgrade, allocator, restart, setting, expire, split_key or split_tag",
        ),
        required("subject", BYTES, "version, setting, prefix, key or tag"),
        optional("subject_text", TEXT, "subject as text, escaped as in the reports"),
        optional(
            "saved_bytes",
            LONG,
            "estimated memory saved; null if none or unknown",
        ),
        required("keys", LONG, "keys that change"),
        required("how", TEXT, "setting or command"),
        required("risk", TEXT, "risk"),
        required("undo", TEXT, "how to revert"),
        required(
            "counted",
            FLAG,
            "whether the saving adds up; else it is an alternative to a counted change",
        ),
    ],
    key=("rank",),
)
