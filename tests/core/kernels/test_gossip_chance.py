"""The compiled generator gives what `random.Random` gives, number by number."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.sim.fast.gossip_chance import STATE, WORDS, draw, draw_word, ready
from tests.examples import examples


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.sampled_from(("random", "word")), max_size=900))
def test_it_draws_what_cpython_draws_in_any_order(seed, wanted):
    """CPython's random() takes two words, getrandbits(32) one: after an odd number of words the pairs are others (mt19937ar.c)."""
    rng = Random(seed)
    rng.random()
    own, doubles = np.array(rng.getstate()[1], np.uint32), np.zeros(WORDS // 2)
    ready(own, doubles)

    for kind in wanted:
        if kind == "random":
            assert draw(own, doubles) == rng.random()
        else:
            assert draw_word(own, doubles) == rng.getrandbits(32)
    assert own.size == STATE
    assert tuple(own.tolist()) == rng.getstate()[1]
