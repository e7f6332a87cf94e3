"""Names of recorded files and lines of gaps: written ones are read back, others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import (
    SUFFIXES,
    Gap,
    Kind,
    Reason,
    RecordedFile,
    address_of,
    latest,
    read_gap,
    read_name,
    read_path,
    source_of,
)

MICROSECONDS = st.integers(0, 4_000_000_000_000_000).map(lambda us: us * 1000)
SOURCES = st.one_of(st.just(""), st.text(max_size=200).map(source_of))


@given(SOURCES, MICROSECONDS, st.none() | MICROSECONDS, st.sampled_from(sorted(set(SUFFIXES.values()))))
def test_a_file_name_has_node_and_time(source, from_ns, to_ns, suffix):
    recorded = RecordedFile(source, from_ns, to_ns, suffix)

    assert read_name(recorded.name) == recorded
    assert recorded.name.startswith(".") == (to_ns is None)
    assert not set(recorded.name) & set("/:\\ \n\0*?[]")


@given(st.lists(st.tuples(MICROSECONDS, MICROSECONDS), min_size=2, max_size=5))
def test_names_are_in_the_order_of_their_times(times):
    files = sorted(RecordedFile("", begin, end, "pcap") for begin, end in times)

    assert [file.name for file in files] == sorted(file.name for file in files)


@pytest.mark.parametrize(
    "name",
    [
        "bus.pcap.gz",
        "20261122T233600.000000Z_20261122T233700.000000Z.pcap",
        "20261322T233600.000000Z_20261122T233700.000000Z.pcap.gz",
        "20261122T233600.000000Z_20261122T233700.000000Z.exe.gz",
        "20261122T233600.000000Z.pcap.gz",
        "../20261122T233600.000000Z_20261122T233700.000000Z.pcap.gz",
        ".20261122T233600.000000Z.pcap.gz",
        "20261122T233600.000000Z_20261122T233700.000000Z.pcap.gz\n",
        "",
    ],
)
def test_other_names_belong_to_no_node(name):
    assert read_name(name) is None


@pytest.mark.parametrize("address", [("10.0.0.1", 7000), ("fd00::1", 7000), ("2001:db8::7000", 65535)])
def test_a_log_file_name_has_its_node(address):
    """Also where groups of an IPv6 address look like ports."""
    ip, port = address
    written = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"

    assert address_of(RecordedFile(source_of(written), 0, 1000, "log").name) == address
    assert address_of(RecordedFile(source_of(f"{ip}:{port}"), 0, 1000, "log").name) == address


def test_a_log_without_a_node_has_no_address():
    assert address_of(RecordedFile(source_of("redis-server.log"), 0, 1000, "log").name) is None
    assert address_of("7000.log") is None


@given(
    st.builds(
        Gap, st.sampled_from(Kind), MICROSECONDS, st.none() | MICROSECONDS, st.sampled_from(Reason),
        st.text(max_size=100), st.text(max_size=100), st.none() | st.integers(0, 2**60),
    )
)  # fmt: skip
def test_a_gap_is_one_line_that_is_read_again(gap):
    line = gap.line().encode("ascii")

    assert read_gap(line, line=1) == gap
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"{}", b'{"kind":"x"}', b'{"kind":"bus","from":"x","to":null,"reason":"torn"}', b"[" * 100_000],
)
def test_an_invalid_gap_names_its_line(line):
    with pytest.raises(DecodeError) as refused:
        read_gap(line, line=7)

    assert refused.value.offset == 7


def test_an_ended_gap_is_reported_once():
    begun = Gap(Kind.BUS, 1_000, None, Reason.DISK_FULL)
    other = Gap(Kind.POLLS, 1_000, None, Reason.UNREACHABLE, "10.0.0.1:7000", "refused")

    assert latest([begun, other, begun._replace(to_ns=5_000)]) == [begun._replace(to_ns=5_000), other]


@pytest.mark.parametrize(
    "name",
    [
        "1795874460-0c5b1c7e-5f0a-4c1e-9f0e-1d5c3b7a9e11.log.gz",
        "redis-0.20261128T140100-aB3.gz",
        "2026-11-28-14-01-00.jsonl.gz",
    ],
)
def test_a_file_of_a_log_shipper_has_the_time_in_its_name(name):
    place = read_path(f"/landing/shop/host-1/logs/{name}")

    assert place is not None
    assert (place.cluster, place.point, place.kind) == ("shop", "host-1", Kind.LOGS)
    assert place.file == RecordedFile("", 1_795_874_460_000_000_000, 1_795_874_460_000_000_000, "log")


@pytest.mark.parametrize(
    "path",
    ["c/p/logs/redis.log.gz", "c/p/logs/20261341T140100.gz", "c/p/logs/.1764338460.gz", "c/p/bus/1764338460-1.gz"],
)
def test_files_without_a_time_are_not_from_a_shipper(path):
    assert read_path(path) is None
