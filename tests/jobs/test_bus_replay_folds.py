"""New files are folded in without reading the old ones again, and the result is that of a replay from the start."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from tests.builders.bus_folding import Fold, cut, fold, packet_ends
from tests.conftest import DATA

PACKETS = 1000


@pytest.fixture(scope="module")
def capture() -> bytes:
    """The first packets of a recorded failover."""
    raw = gzip.decompress((DATA / "bus-valkey-9.1" / "bus.pcap.gz").read_bytes())
    ends = packet_ends(raw)
    return raw[: ends[min(PACKETS, len(ends) - 1)]]


def whole(capture: bytes, folder: Path, timeout_ms: int | None) -> Fold:
    """The replay of all of it at once."""
    path = folder / "whole.pcap"
    path.write_bytes(capture)
    return fold([path], node_timeout_ms=timeout_ms)


@pytest.mark.long
@pytest.mark.parametrize("timeout_ms", [1000, None])
@pytest.mark.parametrize("seed", range(4))
def test_files_cut_at_any_packet_and_folded_in_one_by_one_give_the_same_tables(
    capture, tmp_path, seed, timeout_ms
) -> None:
    """With a node timeout that is given rows settle at once; one that is estimated keeps all provisional at first."""
    ends = packet_ends(capture)
    at = random.Random(seed).sample(ends[:-1], 1 + seed % 4)

    folded: Fold | None = None
    for path in cut(capture, at, tmp_path):
        folded = fold([path], folded, node_timeout_ms=timeout_ms)

    assert folded is not None
    assert folded.comparable() == whole(capture, tmp_path, timeout_ms).comparable()


@pytest.mark.long
def test_rows_that_are_settled_do_not_change_with_further_files(capture, tmp_path) -> None:
    ends = packet_ends(capture)
    paths = cut(capture, [ends[700]], tmp_path)
    first = fold(paths[:1], node_timeout_ms=1000)
    second = fold(paths[1:], first, node_timeout_ms=1000)

    settled = [pair for pair in first.rows if pair[1] is not None]

    assert settled
    assert set(map(repr, settled)) <= set(map(repr, second.rows))
