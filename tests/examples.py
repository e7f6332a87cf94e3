"""How many examples a property is tried with: what its test asks for, scaled by the profile of the run."""

from __future__ import annotations

import pytest
from hypothesis import settings

LEAST = 3
"""Also the quickest run tries some."""


MUTATIONS = (1_000, pytest.param(10_000, marks=pytest.mark.slow))
"""How many damaged inputs a reader must survive."""


def examples(count: int) -> int:
    """Return a third of *count* for `make test`, a tenth for `make check`, three times as many for `make test-all`."""
    return max(min(count, LEAST), count * settings.default.max_examples // 100)
