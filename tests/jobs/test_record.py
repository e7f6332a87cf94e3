"""`slotscope record` beside a real cluster: killed, started again, and its landing replayed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.fidelity import replay
from cluster_core.formats.landing import Gap, Kind, Reason, latest, read_gap
from cluster_core.kernels.bus.decoder import BusDecoder
from jobs.main import run as run_command
from slotscope.sources.bus.evidence import CaptureOptions
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.point_series import PointSeries, SeriesState
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.node_polls import PollFile
from tests.benches.capturing import needs_capture
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.program import Program, without_progress
from tests.benches.servers import free_port, installed, valkey_binary, wait_for

pytestmark = pytest.mark.servers

NEAR_NS = 20_000_000
"""By so much the times differ that two captures give a packet; messages of one kind between two nodes are further apart."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    needs_capture()
    with running_cluster(installed(valkey_binary()), masters=3) as running_one:
        yield running_one


class Recording:
    """A recorder in a process of its own."""

    def __init__(self, landing: Path, *arguments: str) -> None:
        self.folder = landing / "cache" / "one"
        self.arguments = [
            "record", landing, "--cluster", "cache", "--point", "one", "--interface", "lo", "--every", "2s", "--interval", "0.2", *arguments
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = Program(*self.arguments)

    def files(self, kind: Kind) -> list[Path]:
        return sorted(path for path in (self.folder / kind).glob("*") if not path.name.startswith("."))

    def gaps(self) -> list[Gap]:
        path = self.folder / "gaps.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return latest(read_gap(raw, line=number) for number, raw in enumerate(lines, 1))


def messages_of(captures: list[str]) -> list[tuple[int, int, int, int]]:
    """Time, ports and length of every bus message in captures, by the reader of a replay."""
    batches = PointSeries(survey(find_captures(captures)), SeriesState(), {}).all_of(BusDecoder())
    return [
        (int(row["ts_ns"]), int(row["source_port"]), int(row["target_port"]), int(row["totlen"]))
        for batch in batches
        for row in batch.messages
    ]


def unmatched(those: list[tuple[int, ...]], candidates: list[tuple[int, ...]]) -> list[int]:
    """Times of messages that are not among the *others*, each of which is one of them; a capture has its own time of a packet."""
    times: dict[tuple[int, ...], list[int]] = {}
    for at_ns, *what in sorted(candidates):
        times.setdefault(tuple(what), []).append(at_ns)
    result = []
    for at_ns, *what in sorted(those):
        near = [other for other in times.get(tuple(what), []) if abs(other - at_ns) <= NEAR_NS]
        if near:
            times[tuple(what)].remove(near[0])
        else:
            result.append(at_ns)
    return result


def test_a_killed_recorder_resumes_and_every_message_is_there_once(cluster, tmp_path):
    """An independent capture runs all the time: its messages missing in the landing lie in a reported gap."""
    truth = tmp_path / "truth.pcap"
    ports = " or ".join(f"port {node.port + 10_000}" for node in cluster.nodes)
    witness = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-B", "65536", "--time-stamp-precision=nano", "-w", str(truth), f"tcp and ({ports})"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(truth.exists, "the witness to listen")
        recording = Recording(tmp_path / "landing", "--node", f"127.0.0.1:{cluster.nodes[0].port}")
        wait_for(lambda: len(recording.files(Kind.BUS)) >= 2, "two files", 60)
        recording.process.crash()
        time.sleep(1)
        recording.start()
        before = len(recording.files(Kind.BUS))
        wait_for(lambda: len(recording.files(Kind.BUS)) >= before + 3, "files after the restart", 60)
        errors = recording.process.end()
    finally:
        witness.terminate()
        witness.wait()

    recorded = messages_of([str(recording.folder / "bus" / "*")])
    first, last = min(recorded)[0], max(recorded)[0]
    gaps = [gap for gap in recording.gaps() if gap.kind is Kind.BUS]
    expected = [message for message in messages_of([str(truth)]) if first <= message[0] <= last]
    missing, extra = unmatched(expected, recorded), unmatched(recorded, expected)

    assert [gap.reason for gap in gaps] == [Reason.NOT_RUNNING]
    assert len(recorded) > 20
    assert [at_ns for at_ns in missing if not any(gap.from_ns - NEAR_NS <= at_ns <= (gap.to_ns or 0) + NEAR_NS for gap in gaps)] == []  # fmt: skip
    assert [at_ns for at_ns in extra if first + NEAR_NS < at_ns < last - NEAR_NS] == []
    assert len(missing) > 0
    assert not list(recording.folder.glob("*/.*.partial"))
    assert "not-running" in errors
    _is_replayed(recording, cluster)


def _is_replayed(recording: Recording, cluster: Cluster) -> None:
    """All of it, together, by what `history` runs."""
    bus, polls = ([str(path) for path in recording.files(kind)] for kind in (Kind.BUS, Kind.POLLS))
    captures = replay(CaptureOptions(tuple(survey(find_captures(bus))), PollsAndLogs(tuple(polls))))
    asked = {poll.address for path in polls for poll in PollFile(path)}

    assert asked == {f"127.0.0.1:{node.port}" for node in cluster.nodes}
    assert {process.port for process in captures.events} == {node.port + 10_000 for node in cluster.nodes}


def record(landing: Path, *arguments: str) -> int:
    """In this process; its exit code."""
    return run_command(["record", str(landing), "--cluster", "cache", "--point", "one", *arguments])


def gaps_of(landing: Path) -> list[Gap]:
    lines = (landing / "cache" / "one" / "gaps.jsonl").read_bytes().splitlines()
    return latest(read_gap(raw, line=number) for number, raw in enumerate(lines, 1))


def test_an_unreachable_node_is_a_gap_and_foreign_files_stay(tmp_path, capsys):
    port = free_port()
    strange = tmp_path / "cache" / "one" / "polls" / "strange.jsonl.gz"
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"nonsense")
    before_ns = time.time_ns()

    code = record(tmp_path, "--kinds", "polls", "--node", f"127.0.0.1:{port}", "--duration", "0.7", "--json")
    (gap,) = gaps_of(tmp_path)
    status = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert code == 0
    assert (gap.kind, gap.reason, gap.subject) == (Kind.POLLS, Reason.UNREACHABLE, f"127.0.0.1:{port}")
    assert before_ns // 1000 * 1000 <= gap.from_ns < (gap.to_ns or 0) <= time.time_ns()
    assert (status["cluster"], status["point"], status["answers"], status["gaps"]) == ("cache", "one", 0, 1)
    assert strange.read_bytes() == b"nonsense"


def test_a_forbidden_capture_is_a_gap_and_the_rest_continues(tmp_path, capsys):
    program = tmp_path / "tcpdump"
    program.write_text(
        '#!/bin/sh\necho "tcpdump: lo: You don\'t have permission to capture on that device" >&2\nexit 1\n'
    )
    program.chmod(0o755)

    code = record(
        tmp_path, "--kinds", "bus", "--node", f"127.0.0.1:{free_port()}", "--tcpdump", str(program), "--duration", "1"
    )
    actual = {(gap.kind, gap.reason): gap for gap in gaps_of(tmp_path)}

    assert code == 0
    assert "permission to capture" in actual[Kind.BUS, Reason.PROGRAM].detail
    assert actual[Kind.BUS, Reason.PROGRAM].to_ns is not None
    assert "permission to capture" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--every", "0s"),
        ("--every", "soon"),
        ("--keep-bytes", "1"),
        ("--interval", "nan"),
        ("--kinds", "everything"),
        ("--kinds", "logs"),
        ("--node", "nowhere:x"),
        ("--tcpdump", "/no/such/program"),
        ("--cluster", "../other"),
        ("--point", ".hidden"),
    ],
)
def test_invalid_options_are_one_line(tmp_path, capsys, arguments):
    given = ["record", str(tmp_path), "--cluster", "cache", "--point", "one", "--duration", "1"]
    if arguments[0] in given:
        at = given.index(arguments[0])
        del given[at : at + 2]

    assert run_command([*given, *arguments]) == 2
    assert len(without_progress(capsys.readouterr().err)) == 1
    assert list(tmp_path.iterdir()) == []
