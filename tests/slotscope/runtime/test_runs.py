"""Runs: what a reader sees is one run or the other, whatever fails and whoever else writes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from deltalake.exceptions import CommitFailedError

import slotscope
from schemas.gold import NODE_LOAD
from schemas.history import VOTES
from schemas.runs import RUNS
from schemas.silver import SLOT_LOAD, SNAPSHOTS
from slotscope.pipelines.upkeep import maintain
from slotscope.reports.fleet import tables as fleet
from slotscope.requests.upkeep import MaintainRequest
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.failure import TRY_AGAIN, describe
from slotscope.runtime.storage import delta_files, delta_upkeep, runs
from slotscope.runtime.storage.delta_files import counted_runs, read_rows, settled
from slotscope.runtime.storage.delta_upkeep import compact, stored_values
from slotscope.runtime.storage.runs import Run, running
from slotscope.sql import duck
from tests.benches.program import without_progress
from tests.builders.stored_rows import store

CHECKOUT = Path(__file__).parents[3]
WRITTEN = (SLOT_LOAD, NODE_LOAD, SNAPSHOTS)


def write(root, name, keys, **more):
    """One run that writes three tables, each of which holds *keys*."""
    head = {"keys": keys, "bad_records": 0, "warnings": []}
    rows = {
        SLOT_LOAD: [{"slot": 1, "keys": keys}],
        NODE_LOAD: [{"node_id": "n", "slots": 1, "keys": keys}],
        SNAPSHOTS: [head],
    }
    store(str(root), name, rows, job="key-slots", **more)  # fmt: skip


def seen(root, name):
    """The figure that each table shows of a snapshot."""
    return [[row["keys"] for row in read_rows(str(root), table, snapshot_id=name)] for table in WRITTEN]


def test_rows_count_when_their_run_is_complete_and_not_before(tmp_path):
    with running(str(tmp_path), "key-slots", "a") as run:
        run.append(SLOT_LOAD, [{"slot": 1, "keys": 7}])
        during = read_rows(str(tmp_path), SLOT_LOAD)
        own = read_rows(str(tmp_path), SLOT_LOAD, runs=run.visible, snapshot_id="a")

    assert during == []
    assert [row["keys"] for row in own] == [7]
    assert [row["keys"] for row in read_rows(str(tmp_path), SLOT_LOAD)] == [7]


@pytest.mark.long
@pytest.mark.parametrize("commit", range(1, 10))
def test_a_run_that_fails_at_any_commit_leaves_the_old_or_the_new(tmp_path, monkeypatch, commit):
    """A disk that is full from that commit on: no reader sees a mix; the next run is whole, and alone in the tables."""
    write(tmp_path, "a", 1)
    real, done = delta_files.write_deltalake, []

    def fail(*arguments, **more):
        done.append(1)
        if len(done) >= commit:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **more)

    monkeypatch.setattr(delta_files, "write_deltalake", fail)
    if commit <= 5:  # the run's own row, three tables, and the row that closes it
        with pytest.raises(InputError, match=r"cannot be written: .*No space left on device"):
            write(tmp_path, "a", 2)
    else:
        write(tmp_path, "a", 2)
    monkeypatch.undo()

    assert seen(tmp_path, "a") == ([[1]] * 3 if commit <= 5 else [[2]] * 3)

    write(tmp_path, "a", 3)
    assert seen(tmp_path, "a") == [[3]] * 3
    assert [len(stored_values(str(tmp_path), table, "run_id")) for table in WRITTEN] == [1, 1, 1]


@pytest.mark.long
def test_a_run_that_is_complete_stays_so_whatever_happens_to_the_rows_that_it_replaced(tmp_path, monkeypatch):
    """The disk is full when they are to be removed: they do not count, and go another time."""
    write(tmp_path, "a", 1)

    def fail(*_):
        raise InputError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "delete_rows", fail)
        write(tmp_path, "a", 2)

    assert seen(tmp_path, "a") == [[2]] * 3
    assert len(stored_values(str(tmp_path), SLOT_LOAD, "run_id")) == 2
    write(tmp_path, "a", 3)
    assert len(stored_values(str(tmp_path), SLOT_LOAD, "run_id")) == 1


@pytest.mark.long
def test_a_commit_that_seemed_to_fail_is_not_taken_for_another_run(tmp_path, monkeypatch):
    """The answer got lost, and the commit is made again."""
    write(tmp_path, "a", 1)
    real, done = delta_files.write_deltalake, []

    def lose_the_fifth(*arguments, **more):
        real(*arguments, **more)
        done.append(1)
        if len(done) == 5:
            raise CommitFailedError("who knows")

    monkeypatch.setattr(delta_files, "write_deltalake", lose_the_fifth)
    write(tmp_path, "a", 2)

    assert seen(tmp_path, "a") == [[2]] * 3
    assert sorted(row["state"] for row in read_rows(str(tmp_path), RUNS)) == ["complete", "replaced"]


@pytest.mark.parametrize("commit", range(1, 6))
@pytest.mark.parametrize("error", [CommitFailedError("who knows"), OSError(errno.ETIMEDOUT, "timed out")])
def test_rows_whose_commit_was_taken_and_whose_answer_was_lost_are_there_once(tmp_path, monkeypatch, commit, error):
    real, done = delta_files.write_deltalake, []

    def lose(*arguments, **more):
        real(*arguments, **more)
        done.append(1)
        if len(done) == commit:
            raise error

    monkeypatch.setattr(delta_files, "write_deltalake", lose)
    if commit == 5 and isinstance(
        error, OSError
    ):  # the row that closes the run: nobody knows, and it is to be run again
        with pytest.raises(InputError, match="timed out"):
            write(tmp_path, "a", 1)
        monkeypatch.undo()
    write(tmp_path, "a", 1)

    assert seen(tmp_path, "a") == [[1]] * 3


@pytest.mark.long
def test_a_killed_run_leaves_what_was_there_and_the_next_one_removes_its_rows(tmp_path):
    write(tmp_path, "a", 1)
    killed = Run(str(tmp_path), "key-slots", "a")
    killed.begin()
    killed.append(SLOT_LOAD, [{"slot": 1, "keys": 99}])

    assert seen(tmp_path, "a") == [[1]] * 3

    write(tmp_path, "a", 2)
    assert seen(tmp_path, "a") == [[2]] * 3
    assert len(stored_values(str(tmp_path), SLOT_LOAD, "run_id")) == 1


def fold(root, number, *, fails=False):
    """A run that goes on from the last one: a row that lasts, and one that the next run replaces; *fails* at its end."""
    with running(str(root), "history", "a") as run:
        run.keep(run.lasting_before)
        run.append(
            VOTES,
            [{"voter": "lasts", "epoch": number}, {"voter": "does not", "epoch": 1000 + number}],
            ("epoch", number),
        )
        if fails:
            raise OSError("killed")


@pytest.mark.long
def test_however_many_runs_a_snapshot_goes_on_for_it_counts_few(tmp_path, monkeypatch):
    """Lasting rows of many become those of one, and of many of these again; each row is there once, whatever fails in between."""
    monkeypatch.setattr(runs, "LASTING_MAX", 3)
    ids = []
    for number in range(14):
        if number in (3, 9):
            with pytest.raises(OSError, match="killed"):
                fold(tmp_path, number, fails=True)
        fold(tmp_path, number)
        epochs = sorted(row["epoch"] for row in read_rows(str(tmp_path), VOTES, snapshot_id="a"))
        assert epochs == [*range(number + 1), 1000 + number]
        ids.append(len(counted_runs(str(tmp_path), "a")))

    assert max(ids) <= 7 < 14
    assert len(stored_values(str(tmp_path), VOTES, "run_id")) == ids[-1]
    assert maintain(MaintainRequest(root=str(tmp_path))).rows[0][1] == 0


def test_figures_that_do_not_agree_fail_the_run_and_are_kept(tmp_path):
    write(tmp_path, "a", 1)
    broken = Run(str(tmp_path), "key-slots", "a")
    broken.begin()
    broken.check("keys", {"silver/slot_load": 3, "silver/sources": 3, "gold/node_load": None})
    with pytest.raises(InputError, match="contradict each other, nothing was replaced: bytes are 3 by x, 4 by y"):
        broken.check("bytes", {"x": 3, "y": 4})
    broken.abandon(ValueError("no"))

    (failed,) = read_rows(str(tmp_path), RUNS, state="failed")
    assert [(check["of"], check["value"]) for check in failed["checks"]][-2:] == [("x", 3), ("y", 4)]
    assert seen(tmp_path, "a") == [[1]] * 3


@pytest.mark.long
def test_jobs_of_different_snapshots_all_end_right_in_an_empty_root(tmp_path):
    """Side by side from the first commit on, each table made by whoever comes first."""
    start = Barrier(8)

    def job(number):
        start.wait()
        write(tmp_path, f"s{number}", number, cluster=f"c{number % 3}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(job, range(8)))

    assert [seen(tmp_path, f"s{number}") for number in range(8)] == [[[number]] * 3 for number in range(8)]
    assert {row["state"] for row in read_rows(str(tmp_path), RUNS)} == {"complete"}


@pytest.mark.long
@pytest.mark.parametrize("before", [False, True])
def test_of_two_runs_of_one_snapshot_one_wins_and_the_other_is_told_to_try_again(tmp_path, before):
    """Whether there was a snapshot of that name or not: one line, an exit code of its own, and no row of the loser."""
    if before:
        write(tmp_path, "a", 9)
    start, ready = Barrier(2), Barrier(2)

    def job(number):
        start.wait()
        try:
            with running(str(tmp_path), "key-slots", "a") as run:
                for table, row in zip(WRITTEN, ({"slot": 1}, {"node_id": "n"}, {"warnings": []}), strict=True):
                    run.append(table, [{**row, "keys": number}])
                ready.wait()
        except TryAgainError as error:
            return describe(error)
        return number

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(job, (1, 2)))

    (winner,) = [end for end in ends if isinstance(end, int)]
    (loser,) = [end for end in ends if not isinstance(end, int)]
    assert loser.code == TRY_AGAIN == 75
    assert "another key-slots replaced a while this one was at work: run this again" in loser.line
    assert seen(tmp_path, "a") == [[winner]] * 3
    assert len(stored_values(str(tmp_path), SLOT_LOAD, "run_id")) == 1


def test_a_snapshot_of_one_cluster_is_not_replaced_by_another(tmp_path):
    write(tmp_path, "a", 1, cluster="east")

    with pytest.raises(InputError, match="one of cluster east, not of west: choose another name"):
        write(tmp_path, "a", 2, cluster="west")

    assert {row["cluster"] for row in read_rows(str(tmp_path), SLOT_LOAD)} == {"east"}


def test_a_reader_of_several_tables_sees_one_run(tmp_path):
    """A job that ends between two of its reads makes it read again."""
    write(tmp_path, "a", 1)
    rewritten = []

    @settled
    def read():
        found = seen(tmp_path, "a")[:1]
        if not rewritten:
            rewritten.append(1)
            write(tmp_path, "a", 2)
        return found + seen(tmp_path, "a")[1:]

    assert read() == [[2]] * 3


def test_sql_sees_one_run_where_another_ends_while_tables_are_opened(tmp_path, monkeypatch):
    """Its rows would be missing from the tables that are opened after it."""
    write(tmp_path, "a", 1)
    once_before(monkeypatch, duck, "opened_table", lambda: write(tmp_path, "a", 2))

    found = slotscope.connect(str(tmp_path)).execute(
        "SELECT s.keys, n.keys, a.keys FROM snapshots AS a LEFT JOIN slot_load AS s USING (snapshot_id) LEFT JOIN node_load AS n USING (snapshot_id)"
    )

    assert found.fetchall() == [(2, 2, 2)]


def test_a_page_of_the_fleet_sees_one_run_where_another_ends_meanwhile(tmp_path, monkeypatch):
    write(tmp_path, "a", 1, cluster="east")
    once_before(monkeypatch, fleet, "_newest", lambda: write(tmp_path, "b", 2, cluster="east"))

    (found,) = fleet.load_fleet(str(tmp_path), 0).clusters

    assert (found.snapshot, found.keys, found.masters) == ("b", 2, 1)


def once_before(monkeypatch, module, name, do):
    """Let *do* happen when *module* calls its *name* for the first time, before that."""
    real, done = getattr(module, name), []

    def late(*arguments):
        if not done:
            done.append(1)
            do()
        return real(*arguments)

    monkeypatch.setattr(module, name, late)


@pytest.mark.long
def test_joined_files_hold_the_same_rows(tmp_path):
    for number in range(5):
        write(tmp_path, f"s{number}", number)
    before = [seen(tmp_path, f"s{number}") for number in range(5)]

    assert compact(str(tmp_path), SLOT_LOAD) == 5
    assert [seen(tmp_path, f"s{number}") for number in range(5)] == before
    assert len(counted_runs(str(tmp_path), "s1")) == 1


def test_who_joins_files_at_once_leaves_each_row_once(tmp_path):
    """delta-rs lets both pass, also the one that read the table before the other joined it."""
    for number in range(8):
        write(tmp_path, f"s{number}", number)
    barrier = Barrier(4)

    def join(_: int) -> int:
        barrier.wait()
        return compact(str(tmp_path), SLOT_LOAD)

    with ThreadPoolExecutor(4) as pool:
        joined = list(pool.map(join, range(4)))

    assert sorted(joined) == [0, 0, 0, 8]
    assert sorted(row["keys"] for row in read_rows(str(tmp_path), SLOT_LOAD)) == list(range(8))


def test_a_join_that_was_killed_keeps_others_away_for_an_hour(tmp_path, monkeypatch):
    for number in range(3):
        write(tmp_path, f"s{number}", number)
    claim = delta_upkeep.time.time_ns()
    with monkeypatch.context() as killed:
        killed.setattr(delta_upkeep, "JOINED", delta_upkeep.JOINING + "-never")
        compact(str(tmp_path), SLOT_LOAD)
    write(tmp_path, "s3", 3)

    at_once = compact(str(tmp_path), SLOT_LOAD)
    monkeypatch.setattr(delta_upkeep.time, "time_ns", lambda: claim + 3_700_000_000_000)
    later = compact(str(tmp_path), SLOT_LOAD)
    versions = delta_files.existing_table(str(tmp_path), SLOT_LOAD).version()

    assert (at_once, later) == (0, 2)
    assert compact(str(tmp_path), SLOT_LOAD) == 0
    assert delta_files.existing_table(str(tmp_path), SLOT_LOAD).version() == versions


def test_a_root_that_cannot_be_written_is_said_before_anything_is_read(tmp_path):
    """In one line; a file stands where the folder should be."""
    (tmp_path / "root").write_text("")

    with pytest.raises(InputError, match=r"root/silver/runs: cannot be written"):
        write(tmp_path / "root", "a", 1)


JOB = """
import sys
from tests.slotscope.runtime.test_runs import write
write(sys.argv[1], sys.argv[2], int(sys.argv[3]), cluster=sys.argv[2])
"""


@pytest.mark.processes
def test_processes_that_begin_together_in_an_empty_root_all_end_right(tmp_path):
    """As the jobs of several clusters that one clock starts."""
    words = [[sys.executable, "-c", JOB, str(tmp_path), f"c{number}", str(number)] for number in range(4)]
    jobs = [subprocess.Popen(one, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) for one in words]

    assert [job.wait(120) for job in jobs] == [0] * 4
    assert [seen(tmp_path, f"c{number}") for number in range(4)] == [[[number]] * 3 for number in range(4)]


@pytest.mark.slow  # threads and processes that begin together are in the tests above
@pytest.mark.processes
@pytest.mark.spark
def test_of_two_command_lines_that_write_one_snapshot_one_wins_and_the_other_ends_with_75(tmp_path):
    """Both begin before one ends: the loser says so in one line, and the tables hold the winner's rows alone."""
    dump = CHECKOUT / "tests" / "data" / "valkey-9.1"
    command = [
        sys.executable,
        "-m",
        "jobs.main",
        "key-slots",
        "--root",
        str(tmp_path),
        "--snapshot",
        "a",
        "--cluster",
        "c",
    ]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    jobs = [
        subprocess.Popen(
            [*command, "--rdb", str(dump / folder / "*.rdb")], cwd=CHECKOUT, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for folder in ("before", "after")
    ]  # fmt: skip
    told = [job.communicate(timeout=500)[1] for job in jobs]

    codes = [job.returncode for job in jobs]
    assert sorted(codes) == [0, TRY_AGAIN]
    (line,) = without_progress(told[codes.index(TRY_AGAIN)])
    assert line == f"slotscope: {tmp_path}: another key-slots replaced a while this one was at work: run this again"
    keys = (6002, 6693)[codes.index(0)]
    assert [row["keys"] for row in read_rows(str(tmp_path), SNAPSHOTS)] == [keys]
    assert sum(row["keys"] for row in read_rows(str(tmp_path), SLOT_LOAD)) == keys
    assert len(stored_values(str(tmp_path), SLOT_LOAD, "run_id")) == 1
