"""Activity of slots over time."""

from __future__ import annotations

from schemas.table import DOUBLE, INTEGER, TEXT, optional, required, snapshot_table

SLOT_ACTIVITY = snapshot_table(
    "silver/slot_activity",
    "Operations, CPU time, traffic and counts of every slot, combined over several windows.",
    [
        required("metric", TEXT, "ops, cpu_usec, network_bytes_in or _out (a second), keys, memory_bytes"),
        required("slot", INTEGER, "0 to 16383"),
        required("value", DOUBLE, "combined over the windows"),
        required("windows", INTEGER, "windows with a measurement"),
        required("restarted", INTEGER, "windows left out because the counter restarted at 0"),
        optional("combined", TEXT, "last, mean, p95 or ewma"),
    ],
    key=("metric", "slot"),
)
