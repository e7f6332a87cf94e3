"""Files of many capture points, read in any number of runs, give the rows that one capture of everything gives."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from cluster_core.formats.landing import GAPS_FILE, Gap, Kind, Reason, RecordedFile
from slotscope.sources.bus.files import measure_clocks, recorded_inputs
from slotscope.sources.bus.point_series import CLOCK, GONE, LATE
from slotscope.sources.bus.polls_and_logs import UnrecordedGaps
from tests.builders.bus_folding import Fold, fold, fold_recorded
from tests.builders.edited_captures import as_pcap, packets_of
from tests.builders.landings import CLUSTER, RECORDED, SECOND, Landed, landing_files
from tests.conftest import DATA

OPTIONS = {"node_timeout_ms": 1000, "lateness_ns": 12 * SECOND}
PACKETS = 2000


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Fold:
    """The replay of the capture that all points were cut from."""
    path = tmp_path_factory.mktemp("alone") / "bus.pcap"
    path.write_bytes(as_pcap(packets_of(RECORDED / "bus.pcap.gz")[:PACKETS]))
    return fold([path], node_timeout_ms=1000)


def in_runs(files: list[Landed], sizes: list[int]) -> Fold:
    """Fold the files, so many in a run; each run's files are gone when it has ended."""
    folded: Fold | None = None
    at = 0
    for size in sizes:
        part = files[at : at + size]
        for file in part:
            file.put()
        folded = fold_recorded([file.path for file in part], folded, **OPTIONS)
        for file in part:
            file.path.unlink()
        at += size
    assert folded is not None
    return folded


def cut_at_random(count: int, first: int, seed: int) -> list[int]:
    """Sizes of runs: the first, then some files each."""
    chance, sizes = random.Random(seed), [first]
    while sum(sizes) < count:
        sizes.append(min(chance.randint(1, 5), count - sum(sizes)))
    return sizes


def shipped_by_vector(log: Path, line: str) -> dict[str, object]:
    entry = {"file": f"/log/{log.name}", "host": "h1", "message": line}
    return {**entry, "source_type": "file", "timestamp": "2026-11-28T14:01:00Z"}


def shipped_by_fluent_bit(log: Path, line: str) -> dict[str, object]:
    pod = {"pod_name": f"redis-{log.name[:5]}", "container_name": "redis"}
    return {"date": "2026-11-28T14:01:00.0Z", "log": line, "kubernetes": pod}


@pytest.mark.parametrize("shipped", [shipped_by_vector, shipped_by_fluent_bit])
def test_logs_of_a_shipper_give_the_events_of_the_logs_themselves(tmp_path, shipped) -> None:
    """All nodes of a host in one file."""
    logs = sorted((DATA / "polled-restart" / "logs").glob("*.gz"))
    folder, itself = (tmp_path / "cluster" / host / "logs" for host in ("h1", "h2"))
    folder.mkdir(parents=True)
    itself.mkdir(parents=True)
    texts = {log: gzip.decompress(log.read_bytes()).decode() for log in logs}
    lines = [json.dumps(shipped(log, line)) for log, text in texts.items() for line in text.splitlines()]
    first_file = folder / "1795874460-0c5b1c7e.log.gz"
    first_file.write_bytes(gzip.compress("\n".join(lines).encode()))
    for log, text in texts.items():
        recorded = itself / f"{log.name[:5]}-20261128T140000.000000Z_20261128T140100.000000Z.log.gz"
        recorded.write_bytes(gzip.compress(text.encode()))

    whole = fold_recorded(sorted(itself.iterdir()))
    folded = fold_recorded([first_file])

    assert folded.facts["log_events"] == whole.facts["log_events"] > 90
    assert folded.facts["processes"] == whole.facts["processes"]
    assert (folded.facts["left_out"], folded.facts["bad_records"]) == ([], 0)


def test_a_pod_is_known_in_later_files_of_a_shipper(tmp_path) -> None:
    """Its log names the node when the server starts."""
    log = DATA / "polled-restart" / "logs" / "22111.log.gz"
    lines = [
        json.dumps(shipped_by_fluent_bit(log, line)) for line in gzip.decompress(log.read_bytes()).decode().splitlines()
    ]
    named = next(at for at, line in enumerate(lines) if "I'm " in line) + 1
    folder = tmp_path / "cluster" / "h1" / "logs"
    folder.mkdir(parents=True)
    files = [folder / f"17958744{seconds}-1.log.gz" for seconds in (60, 70)]
    for file, part in zip(files, (lines[:named], lines[named:]), strict=True):
        file.write_bytes(gzip.compress("\n".join(part).encode()))

    later = fold_recorded([files[1]], fold_recorded([files[0]]))

    assert later.facts["log_events"] > 5
    assert {row["observer"] for row in later.logs} == {later.facts["processes"][0][2]}


def rows(folded: Fold) -> list[str]:
    """What was found out, whenever it became final."""
    return sorted(repr(row) for row, _ in folded.rows)


@pytest.mark.long
def test_points_with_different_file_ends_give_the_rows_of_a_single_capture(tmp_path, alone) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS)

    folded = in_runs(files, [len(files)])

    assert rows(folded) == rows(alone)
    assert [message["ts_ns"] for message in folded.messages] == [message["ts_ns"] for message in alone.messages]
    assert folded.links == alone.links
    assert folded.facts["left_out"] == []


@pytest.mark.long
def test_the_number_of_runs_changes_no_row(tmp_path) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS, logs=True)
    whole = in_runs(files, [len(files)])

    folded = in_runs(files, cut_at_random(len(files), 1, 0))

    assert folded.comparable()["rows"] == whole.comparable()["rows"]
    assert folded.messages == whole.messages
    assert folded.facts["left_out"] == []


@pytest.mark.long
def test_files_in_any_order_of_arrival_within_the_lateness_give_the_same_rows(tmp_path) -> None:
    """The watermark leads the lateness once all points have delivered; a file that is missing holds it back."""
    files = landing_files(tmp_path, seconds=3, aligned=True)
    whole = in_runs(files, [len(files)])
    jitter = random.Random(5)
    arrivals = sorted(files, key=lambda file: file.ended_ns + jitter.random() * 5 * SECOND)
    first = [file for file in files if file.ended_ns == files[0].ended_ns]
    rest = [file for file in arrivals if file not in first]
    parts = [first, *(rest[at : at + 4] for at in range(0, len(rest), 4))]
    folded: Fold | None = None
    leads_ns, newest_ns = [], 0

    for part in parts:
        for file in part:
            file.put()
        folded = fold_recorded([file.path for file in part], folded, **OPTIONS | {"lateness_ns": 9 * SECOND})
        newest_ns = max(newest_ns, *(file.ended_ns for file in part))
        leads_ns.append(folded.facts["watermark_ns"] - (newest_ns - 9 * SECOND))

    assert folded is not None
    assert rows(folded) == rows(whole)
    assert folded.facts["left_out"] == []
    assert min(leads_ns) < 1000
    assert SECOND < max(leads_ns) < 9 * SECOND


@pytest.mark.long
def test_clocks_hours_apart_are_aligned_by_common_segments(tmp_path, alone) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS, ahead_s={1: 3600.25, 3: -7200.5})

    folded = in_runs(files, cut_at_random(len(files), 9, 0))

    assert rows(folded) == rows(alone)
    notes = [note[2] for note in folded.facts["notes"] if note[1] == "clocks"]
    assert [text.partition("that of")[0] for text in notes] == [
        "the clock of shop/host-1 is 3600.250 s ahead of ",
        "the clock of shop/host-3 is 7200.500 s behind ",
    ]


@pytest.mark.long
@pytest.mark.parametrize("seconds", [3, 10])
def test_a_recorder_started_later_is_aligned_by_files_of_its_time(tmp_path, seconds) -> None:
    """Its first file is not of the time of the first ones of the others, and says to be of none of theirs."""
    files = landing_files(tmp_path, seconds=seconds, ahead_s={1: 7200, 2: -0.5})
    middle_ns = files[len(files) // 2].ended_ns
    actual = [file for file in files if "host-1" not in str(file.path) or file.ended_ns > middle_ns]
    for file in actual:
        file.put()
    known_ns: dict[str, int] = {}

    unknown = measure_clocks(recorded_inputs((str(file.path), len(file.raw)) for file in actual), known_ns, [])

    assert not unknown
    assert [known_ns[f"{CLUSTER}/host-{number}"] for number in range(4)] == [0, 7200 * SECOND, -SECOND // 2, 0]


@pytest.mark.long
def test_a_file_of_the_future_is_left_out_and_makes_no_file_late(tmp_path, alone) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS)
    now_ns = max(file.ended_ns for file in files)
    of_host = next(file for file in files if "host-0" in str(file.path))
    to_come = Landed(of_host.path.with_name("20991231T000000.000000Z_20991231T000100.000000Z.pcap.gz"), 0, of_host.raw)
    half = len(files) // 2
    for file in (*files, to_come):
        file.put()

    first = fold_recorded([to_come.path, *(file.path for file in files[:half])], **OPTIONS, now_ns=now_ns)
    folded = fold_recorded([file.path for file in files[half:]], first, **OPTIONS, now_ns=now_ns)

    assert [late[:2] for late in first.facts["left_out"]] == [[str(to_come.path), CLOCK]]
    assert rows(folded) == rows(alone)


@pytest.mark.long
def test_a_file_later_than_the_watermark_is_left_out_and_reported(tmp_path) -> None:
    files = landing_files(tmp_path, seconds=2)
    late = files[3]
    on_time = [file for file in files if file is not late]
    without = in_runs(on_time, [len(on_time)])

    folded = in_runs([*on_time, late], [len(on_time), 1])

    assert folded.facts["left_out"] == [
        [str(late.path), LATE, folded.facts["left_out"][0][2], 0, without.facts["watermark_ns"]]
    ]
    assert folded.facts["left_out"][0][2] > 0
    assert rows(folded) == rows(without)


@pytest.mark.long
def test_missing_and_invalid_files_are_reported_and_other_files_read(tmp_path, alone) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS)
    for file in files:
        file.put()
    of_host = next(file.path.parent for file in files if "host-0" in str(file.path))
    half = of_host / "20261121T160603.196778Z_20261121T160610.000001Z.pcap.gz"
    nonsense = of_host / "20261121T160603.196778Z_20261121T160610.000002Z.pcap.gz"
    gone = of_host / "20261121T160603.196778Z_20261121T160610.000003Z.pcap.gz"
    half.write_bytes(files[-1].raw[: len(files[-1].raw) // 2])
    nonsense.write_bytes(random.Random(1).randbytes(5000))
    (of_host / "notes.txt").write_text("not of a recorder")

    folded = fold_recorded([*(file.path for file in files), half, nonsense, gone], **OPTIONS)

    assert rows(folded) == rows(alone)
    assert {row["source"] for row in folded.bad} == {str(half), str(nonsense)}
    assert [late[:2] for late in folded.facts["left_out"]] == [[str(gone), GONE]]


@pytest.mark.long
def test_two_recorders_under_one_name_lose_nothing_and_count_nothing_twice(tmp_path, alone) -> None:
    """Files of one folder that overlap in time are merged as those of several are."""
    files = landing_files(tmp_path, packets_max=PACKETS)
    joined = [replace(file, path=Path(str(file.path).replace("host-1", "host-0"))) for file in files]

    folded = in_runs(joined, [len(files)])

    assert rows(folded) == rows(alone)


@pytest.mark.long
def test_a_gap_of_a_recorder_is_a_row_and_a_warning_also_if_old(tmp_path) -> None:
    files = landing_files(tmp_path, packets_max=PACKETS)
    begun_ns = files[0].ended_ns // 1000 * 1000
    last = Gap(Kind.BUS, begun_ns, begun_ns + 2 * SECOND, Reason.PROGRAM, "", "tcpdump: eth0: no such device")
    point = files[0].path.parent.parent
    point.mkdir(parents=True)
    lines = last._replace(to_ns=None).line() + "{}\n" + last.line() + '{"kind": "bu'
    (point / GAPS_FILE).write_text(lines)
    first = [file for file in files if file.path.parent.parent == point][:1]
    rest = [file for file in files if file not in first]

    folded = in_runs([*first, *rest], [1, len(rest)])

    gaps = {
        (row["point"], row["kind"], row["reason"], row["valid_from_ns"], row["valid_to_ns"])
        for row in folded.unrecorded
    }
    assert gaps == {(point.name, "bus", "capture-failed", begun_ns, begun_ns + 2 * SECOND)}
    texts = [note[2] for note in folded.facts["notes"] if note[1] == "gaps"]
    assert f"shop/{point.name} could not record bus once, 2.0 s in all" in texts[-1]
    assert "may be partial" in texts[-1]
    assert "1 lines of gaps.jsonl" in texts[0]


def test_gaps_of_two_nodes_at_the_same_time_are_counted_once():
    """They begin together; one is still open, the other ends after the recording."""
    gaps = [Gap(Kind.POLLS, 10 * SECOND, to_ns, Reason.UNREACHABLE, name) for name, to_ns in (("a", None), ("b", 90 * SECOND))]  # fmt: skip

    (caveat,) = UnrecordedGaps({"shop/host": gaps}).notes(0, 30 * SECOND, {})

    assert "could not record polls of 2 nodes 2 times, 20.0 s in all" in caveat.text


def scraped(from_s: int, to_s: int, roles: dict[str, str], run_id: str = "1") -> bytes:
    """An answer of Prometheus with a scrape each 10 s."""
    times = range(1_800_000_000 + from_s, 1_800_000_000 + to_s, 10)
    series = [
        {
            "metric": {"__name__": "redis_instance_info", "instance": node, "role": role, "run_id": run_id},
            "values": [[at + number * 0.25, "1"] for at in times],
        }
        for number, (node, role) in enumerate(roles.items())
    ]
    return gzip.compress(json.dumps({"status": "success", "data": {"result": series}}).encode())


def test_metrics_in_several_files_give_the_rows_of_a_single_answer(tmp_path) -> None:
    """A promotion between two files: the first scrape of the second file names the last one of the first."""
    folder = tmp_path / "shop" / "prometheus" / "metrics"
    folder.mkdir(parents=True)
    files = [folder / f"180000{seconds}.json.gz" for seconds in ("0030", "0060")]
    roles = {"10.0.0.1:7000": "master", "10.0.0.2:7000": "slave"}
    files[0].write_bytes(scraped(0, 30, roles))
    files[1].write_bytes(scraped(30, 60, dict.fromkeys(roles, "master")))

    first = fold_recorded(files[:1])
    second = fold_recorded(files[1:], first)

    assert second.facts["metrics_before"] == len(first.metrics) == 4
    assert (first.facts["scrapes"], second.facts["scrapes"]) == (6, 12)
    assert [row["line"] for row in second.metrics] == [5, 6, 7, 8]
    assert (second.facts["first_ns"], second.facts["last_ns"]) == (1_800_000_000 * SECOND, 1_800_000_050_250_000_000)
    promoted = next(row for row in second.metrics if row["address"] == "10.0.0.2:7000")
    assert (promoted["role"], promoted["ts_ns"]) == ("master", 1_800_000_030_250_000_000)
    assert second.facts["left_out"] == []


def poll_files(folder: Path, count: int, seconds: int) -> list[Path]:
    """So many files of polls of a quiet cluster, one of each node every 30 s; a node is marked FAIL in the third file."""
    lines = gzip.decompress((DATA / "polled-restart" / "polls.jsonl.gz").read_bytes()).splitlines()
    nodes = {poll["node"]: poll for poll in map(json.loads, lines)}
    folder.mkdir(parents=True)
    result = []
    for number in range(count):
        from_ns = (1_800_000_000 + number * seconds) * SECOND
        name = RecordedFile("", from_ns, from_ns + seconds * SECOND, "jsonl").name
        times = (from_ns + at * SECOND for at in range(0, seconds, 30))
        polls = [poll | {"time": at_ns + 1000, "asked": at_ns} for at_ns in times for poll in nodes.values()]
        if number == 2:
            polls = [poll | {"text": poll["text"].replace(" slave ", " slave,fail ", 1)} for poll in polls]
        path = folder / name
        path.write_bytes(gzip.compress("".join(json.dumps(poll) + "\n" for poll in polls).encode()))
        result.append(path)
    return result


@pytest.mark.parametrize(
    ("polled", "known"), [({}, (15_000, "default")), ({"node_timeout_ms": "3000"}, (3000, "given"))]
)
def test_polls_with_the_node_timeout_make_it_known(tmp_path, polled, known) -> None:
    (path,) = poll_files(tmp_path / "shop" / "one" / "polls", 1, 300)
    lines = [json.loads(line) | polled for line in gzip.decompress(path.read_bytes()).splitlines()]
    lines[20:] = [line | dict.fromkeys(polled, "9000") for line in lines[20:]]  # raised at run time
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))

    facts = fold_recorded([path]).facts

    assert (facts["node_timeout_ms"], facts["node_timeout_from"]) == known


@pytest.mark.long
def test_polls_without_captures_become_final_and_are_not_read_again(tmp_path) -> None:
    files = poll_files(tmp_path / "shop" / "one" / "polls", 6, 300)
    folded: Fold | None = None
    settled, sizes = [], []

    for path in files:
        folded = fold_recorded([path], folded)
        settled.append(folded.settled_by)
        sizes.append(len(folded.capture))

    assert folded is not None
    assert rows(folded) == rows(fold_recorded(files))
    assert settled[0] == 0 < settled[-2] < settled[-1]
    assert sizes[-1] < sizes[1]
    assert folded.facts["left_out"] == []
