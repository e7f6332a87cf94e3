"""Spark's Python daemon with what every task needs imported once: each of its workers would import it anew, a second for as little as a row.

It is used where driver and executors are one process (`slotscope.runtime.spark.session`): there a worker finds this project before it is told where.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from importlib import import_module
from typing import Final

from pyspark import daemon

from cluster_core.kernels.code_cache import take_turns
from slotscope.runtime.compiled_code import wait_turn

SHARED: Final = ("numba", "pyspark.worker", "cluster_core.kernels.key_batch")
"""What all tasks import."""


def main() -> None:
    """Import, then wait for Spark to ask for workers."""
    for name in SHARED:
        import_module(name)
    take_turns(wait_turn)  # tasks side by side need the same kernels: one compiles them
    gc.collect()
    gc.freeze()  # workers collect garbage after each task: what all share need not be looked through, nor copied
    manage: Callable[[], None] = daemon.manager  # it has no types
    manage()


if __name__ == "__main__":
    main()
