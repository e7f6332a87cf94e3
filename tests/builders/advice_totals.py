"""What advice adds up over all keys of a dump, for tests that compare with it."""

from __future__ import annotations

import numpy as np

from cluster_core.advice.totals import Totals
from cluster_core.memory.model import MemoryModel, MemorySettings, model_of
from cluster_core.rdb.skim import RdbSkimmer
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.rdb.tally import AdviceTally
from tests.builders.rdb_rows import batches_of


def advice_totals(dump: bytes, settings: MemorySettings, *, allocator: int | None = None) -> tuple[MemoryModel, Totals]:
    """The model of the keys of *dump* as *settings* have it, with another *allocator* if one is given, and the sums of advice under it."""
    skimmer = RdbSkimmer("dump", memory=settings)
    batches = list(batches_of(skimmer, dump))
    model = model_of(skimmer.head, settings)
    assert model is not None
    if allocator is not None:
        model = model._replace(allocator=allocator)
    tally = AdviceTally(model, skimmer.head, TallyOptions(memory=settings))
    for batch in batches:
        tally.add(batch, np.frombuffer(dump, np.uint8), 0)
    return model, totals_of(tally)


def totals_of(tally: AdviceTally) -> Totals:
    memory = [0] * (2 + len(tally.conditions))
    totals = Totals(tally.conditions, 0, memory, {}, {})
    for rows in tally.rows():
        for kind, number, name, sums in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind == "slot":
                memory[:] = (before + more for before, more in zip(memory, sums, strict=True))
            elif kind == "keys":
                totals.keys = number
            elif kind == "prefix":
                totals.prefixes[name] = number, sums
            elif kind == "curve":
                totals.curves[name.decode(), number] = sums
    return totals
