"""Tables of `slotscope advise`: what keys would take under other conditions, and what would save memory."""

from __future__ import annotations

from schemas.table import BYTES, FLAG, INTEGER, LONG, TEXT, optional, required, snapshot_table

MEMORY_CONDITIONS = snapshot_table(
    "gold/memory_conditions",
    "What the keys of a snapshot would take after being loaded by other server versions and allocators: in all, by type, master, slot and prefix.",
    [
        required("server", TEXT, "version: valkey 9.1"),
        required("allocator", TEXT, "jemalloc, jemalloc-16 or libc"),
        required("scope", TEXT, "cluster, type, node, slot or prefix"),
        required("scope_value", BYTES, "type, node id, slot number or prefix; empty for the cluster"),
        optional("scope_value_text", TEXT, "scope_value as text, escaped as in the reports"),
        required("now_bytes", LONG, "estimated bytes in memory now"),
        required("memory_bytes", LONG, "estimated bytes in memory then"),
        required(
            "unmeasured_keys",
            LONG,
            "keys that count as now under all conditions: modules, hashes whose fields expire, damaged streams",
        ),
    ],
    key=("server", "allocator", "scope", "scope_value"),
)

SAVING_CURVES = snapshot_table(
    "gold/saving_curves",
    "What larger limits of packed values would save, and at which price.",
    [
        required("setting", TEXT, "name in the server's configuration"),
        required("value", LONG, "its value"),
        required("keys", LONG, "keys that are tables now and packed then"),
        required(
            "saved_bytes",
            LONG,
            "estimated bytes in memory that they save; of lists also less than none, where nodes are then rounded up by more",
        ),
        required("walked_max", LONG, "most elements (of a list: bytes) that a command on one of them walks then"),
        required(
            "is_knee", FLAG, "whether this is the value to take: the first that brings 80 % of what the largest brings"
        ),
    ],
    key=("setting", "value"),
)

SAVINGS = snapshot_table(
    "gold/savings",
    "Changes that save memory, ranked; no two that are counted claim the same bytes.",
    [
        required("rank", INTEGER, "1 saves most; those that are counted come first"),
        required(
            "kind",
            TEXT,
            "upgrade, allocator, restart, setting, bucket, names, compress, share, expire, split_key or split_tag",
        ),
        required("subject", BYTES, "the version, setting, prefix, key or tag that it is about"),
        optional("subject_text", TEXT, "subject as text, escaped as in the reports"),
        optional(
            "saved_bytes",
            LONG,
            "estimated bytes in memory that it saves; null where it saves none, or that cannot be said",
        ),
        required("keys", LONG, "keys that change"),
        required("how", TEXT, "the setting or command"),
        required("risk", TEXT, "what it may cost"),
        required("undo", TEXT, "how to go back"),
        required(
            "counted",
            FLAG,
            "whether its bytes are its own; else it is another way to save bytes that a counted change saves",
        ),
    ],
    key=("rank",),
)
