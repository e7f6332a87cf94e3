"""Values measured under several conditions: the dump's own equals the skim, and damage is harmless."""

from __future__ import annotations

import lzma
import random

import numpy as np
import pytest

from cluster_core.advice.changes import conditions_for
from cluster_core.errors import DecodeError
from cluster_core.memory.model import MemorySettings, model_of
from cluster_core.rdb import shapes
from cluster_core.rdb.shapes import ValueMeasure
from cluster_core.rdb.skim import RdbSkimmer
from tests.builders.rdb_rows import batches_of
from tests.conftest import DATA

LOADED = MemorySettings(loaded=True)


def measured(dump: bytes):
    """Yield each batch of a dump that can be read with what its values take; damage ends it."""
    skimmer, measure = RdbSkimmer("dump", memory=LOADED, check_crc=False), None
    data = np.frombuffer(dump, np.uint8)
    try:
        for batch in batches_of(skimmer, dump):
            model = model_of(skimmer.head, LOADED)
            if model is None:
                return
            measure = measure or ValueMeasure(skimmer.head, conditions_for(model))
            yield batch, measure.measure(batch, data, 0)
    except DecodeError:
        return


@pytest.mark.parametrize("name", ["redis-7.0", "valkey-9.1"])
def test_the_first_condition_is_the_model_of_the_skim_for_every_key(name):
    known = count = 0
    for batch, measure in measured(lzma.decompress((DATA / "memory" / f"{name}.rdb.xz").read_bytes())):
        is_known = measure.shapes[:, shapes.IS_KNOWN] > 0
        known, count = known + int(is_known.sum()), count + len(batch)
        apart = np.abs(measure.memory[is_known, 0] - batch.memory_bytes[is_known])

        assert (apart == 0).mean() > 0.97
        assert apart.sum() <= 0.002 * batch.memory_bytes[is_known].sum()
    assert known > 0.8 * count > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_mutations_of_a_dump_are_measured_or_left_out(seed):
    """Damage that a skim passes over may lie inside a packed value; sizes then mean nothing, but nothing breaks."""
    rng, whole = random.Random(seed), (DATA / "redis-7.0" / "dump.rdb").read_bytes()
    seen = 0
    for _ in range(60):
        dump = bytearray(whole)
        for _ in range(rng.randrange(1, 12)):
            dump[rng.randrange(9, len(dump))] = rng.randrange(256)
        seen += sum(len(batch) for batch, _ in measured(bytes(dump)))

    assert seen > 0
