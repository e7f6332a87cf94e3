"""Recorded sentinels replayed: beliefs as they answered, events as they announced them."""

from __future__ import annotations

import pytest

from cluster_core.sentinel_history.history import fold_history
from tests.benches.sentinel_accuracy import compare_beliefs, compare_events
from tests.benches.sentinel_recordings import NAMES, announced_in, evidence_of, history_of

LEAST_PERCENT = {"redis-7.0": 98.0, "valkey-9.1": 98.0, "redis-7.0-no-quorum": 85.0}
"""In the third, a sentinel stands still: its log says nothing then."""


@pytest.mark.parametrize("name", NAMES)
def test_logs_tell_every_event(name: str) -> None:
    """Events are written to the log before they are announced; each once, with its whole text."""
    count = compare_events(history_of(name).events, announced_in(name))

    assert count.found > 40
    assert count.missing == []


@pytest.mark.parametrize("name", NAMES)
def test_logs_show_flags_addresses_epochs_and_roles(name: str) -> None:
    """Of every instance in every answer (S1 to S16): links and opinions are concluded from the logs of all."""
    verdict = compare_beliefs(history_of(name).spans, evidence_of(name).polled)

    assert verdict.samples > 100
    assert verdict.percent >= LEAST_PERCENT[name], verdict.by_field


@pytest.mark.parametrize("name", NAMES[:2])
def test_answers_are_believed(name: str) -> None:
    """A sentinel that answers knows best, beside logs or alone."""
    found = evidence_of(name)

    for evidence in (found.polled, found.all()):
        verdict = compare_beliefs(fold_history(evidence).spans, found.polled)

        assert verdict.percent_in_all == 100.0, verdict.wrong[:5]


def test_polls_tell_down_after() -> None:
    """The setting of the recording."""
    assert fold_history(evidence_of("redis-7.0").all()).down_after_ms == 2000
    assert 2000 <= history_of("redis-7.0").down_after_ms <= 2110
