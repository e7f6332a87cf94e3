"""Headers folded into spans of equal claims, silence, and late headers (R3, R32, R161)."""

from __future__ import annotations

import pytest

from cluster_core.incidents.header_claims import without_flips
from tests.builders.history_builder import C, Tale


def promotion(*claims: str, step_s: float = 0.001) -> list[str]:
    """Claims that follow each other after *step_s*, as slots; what remains of them."""
    tale = Tale(10.0)
    for number, slots in enumerate(claims):
        tale.says(C, 5 + number * step_s, slots=slots)
    tale.chatter(C, 5.5, 10, slots=claims[-1])
    texts = {number: text for text, number in tale.bitmaps.items()}
    return [texts[span.slots] for span in without_flips(tale.header_claims())]


def test_a_late_header_does_not_undo_a_change() -> None:
    """Old, new, old, new is one change; old, new, old is none; three claims are two changes, on each of several links."""
    assert promotion("1", "2", "1", "2") == ["1", "2"]
    assert promotion("1", "2", "1") == ["1"]
    assert promotion("1", "2", "1", "2", "1") == ["1"]
    assert promotion("1", "2", "3") == ["1", "2", "3"]
    assert promotion("1", "2", "3", "1", "2", "3", "1", "2", "3", "4", "3", "4") == ["1", "2", "3", "4"]
    assert promotion("1", "2", "3", "1", "2", "3", step_s=0.0) == ["1", "2", "3"]
    assert promotion("1", "2", "1", "2", step_s=0.06) == ["1", "2", "1", "2"]


@pytest.mark.parametrize("at_s", [4.501, 4.8])
def test_a_late_older_epoch_is_no_claim(at_s: float) -> None:
    """A header with a smaller current epoch was built before (R161), however late TCP sends it again."""
    tale = Tale(10.0)
    tale.chatter(C, 0, 5, current=4)
    tale.says(C, at_s, slots="1", current=3)

    assert len(tale.header_claims()) == 1
