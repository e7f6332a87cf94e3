"""Runs: each table holds the rows of one complete run at each of its versions, whatever fails and whoever else writes."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event
from time import sleep

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from schemas.gold import KEY_USE, NODE_LOAD
from schemas.history import VOTES
from schemas.incidents import FINDINGS
from schemas.runs import RUNS
from schemas.silver import SLOT_LOAD, SNAPSHOTS
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.failure import TRY_AGAIN, describe
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.delta_files import TIDY_EVERY, compact, exists, location, read_rows
from slotscope.runtime.storage.runs import Run, begin_together, close_together, running
from tests.builders.stored_rows import store

CHECKOUT = Path(__file__).parents[3]
WRITTEN = (SLOT_LOAD, NODE_LOAD, SNAPSHOTS)


def write(root, name, keys, **more):
    """One run that writes three tables with *keys*."""
    head = {"keys": keys, "bad_records": 0, "warnings": []}
    rows = {
        SLOT_LOAD: [{"slot": slot, "keys": keys} for slot in (1, 2)],
        NODE_LOAD: [{"node_id": "n", "slots": 1, "keys": keys}],
        SNAPSHOTS: [head],
    }
    store(str(root), name, rows, job="key-slots", **more)  # fmt: skip


def seen(root, name):
    """The figures that a reader who knows only the column sees of a snapshot, by table."""
    return [sorted({row["keys"] for row in read_rows(str(root), table, snapshot_id=name)}) for table in WRITTEN]


def versions(root, table):
    """The runs, and the number of rows, of snapshot ``a`` at each version of *table*."""
    place = location(str(root), table)
    for version in range(DeltaTable(place).version() + 1):
        rows = DeltaTable(place, version=version).to_pyarrow_table().to_pylist()
        mine = [row["run_id"] for row in rows if row["snapshot_id"] == "a"]
        yield set(mine), len(mine)


def test_rows_are_in_no_table_before_their_run_is_complete(tmp_path):
    with running(str(tmp_path), "key-slots", "a") as run:
        run.append(SLOT_LOAD, [{"slot": 1, "keys": 7}])
        own = run.read(SLOT_LOAD)
        during = exists(str(tmp_path), SLOT_LOAD)

    assert not during
    assert [row["keys"] for row in own] == [7]
    assert [row["keys"] for row in read_rows(str(tmp_path), SLOT_LOAD)] == [7]
    assert not (tmp_path / "_staging").exists()


@pytest.mark.long
def test_each_version_of_a_table_holds_the_rows_of_one_run(tmp_path):
    for keys in (1, 2, 3):
        write(tmp_path, "a", keys)
        write(tmp_path, "b", keys)

    for table in WRITTEN:
        sizes = {(len(runs), rows) for runs, rows in versions(tmp_path, table)}
        assert sizes == {(1, 2 if table is SLOT_LOAD else 1)}


def test_a_run_makes_one_commit_a_table_and_none_without_rows(tmp_path):
    """The first version of a table has rows; a table that never had any is not there."""
    write(tmp_path, "a", 1)
    first = DeltaTable(location(str(tmp_path), SLOT_LOAD)).version()
    write(tmp_path, "a", 2)

    assert (first, DeltaTable(location(str(tmp_path), SLOT_LOAD)).version()) == (0, 1)
    assert not exists(str(tmp_path), KEY_USE)
    assert read_rows(str(tmp_path), KEY_USE) == []


def test_a_run_without_rows_for_a_table_empties_its_snapshot_there(tmp_path):
    write(tmp_path, "a", 1)
    store(str(tmp_path), "a", {SLOT_LOAD: [{"slot": 1, "keys": 2}]}, job="key-slots")

    assert seen(tmp_path, "a") == [[2], [], []]


@pytest.mark.long
@pytest.mark.parametrize("commit", range(1, 8))
def test_a_run_that_fails_at_any_commit_leaves_each_table_old_or_new(tmp_path, monkeypatch, commit):
    """A disk that is full from that commit on; the run is marked as failed, and the next one is whole."""
    write(tmp_path, "a", 1)
    real, commits = delta_files.write_deltalake, []

    def fail(*arguments, **more):
        commits.append(1)
        if len(commits) >= commit:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments, **more)

    monkeypatch.setattr(delta_files, "write_deltalake", fail)
    if commit <= 5:  # the run's own row, three tables, and the row that closes it
        with pytest.raises(InputError, match=r"cannot be written: .*No space left on device"):
            write(tmp_path, "a", 2)
    else:
        write(tmp_path, "a", 2)
    monkeypatch.undo()

    assert all(keys in ([1], [2]) for keys in seen(tmp_path, "a"))
    write(tmp_path, "a", 3)
    assert seen(tmp_path, "a") == [[3]] * 3
    assert all(len(runs) == 1 for table in WRITTEN for runs, _ in versions(tmp_path, table))


@pytest.mark.parametrize("commit", range(1, 6))
@pytest.mark.parametrize("error", [CommitFailedError("who knows"), OSError(errno.ETIMEDOUT, "timed out")])
def test_rows_of_a_commit_with_a_lost_answer_are_there_once(tmp_path, monkeypatch, commit, error):
    real, commits = delta_files.write_deltalake, []

    def lose(*arguments, **more):
        real(*arguments, **more)
        commits.append(1)
        if len(commits) == commit:
            raise error

    monkeypatch.setattr(delta_files, "write_deltalake", lose)
    if isinstance(error, OSError):  # the store may be away: the run fails, and is run again
        with pytest.raises(InputError, match="timed out"):
            write(tmp_path, "a", 1)
        monkeypatch.undo()
    write(tmp_path, "a", 1)

    assert seen(tmp_path, "a") == [[1]] * 3
    assert len(read_rows(str(tmp_path), SLOT_LOAD)) == 2


def test_a_killed_run_leaves_the_tables_as_they_were_and_is_marked_unfinished(tmp_path):
    write(tmp_path, "a", 1)
    killed = Run(str(tmp_path), "key-slots", "a")
    begin_together([killed])
    killed.append(SLOT_LOAD, [{"slot": 1, "keys": 99}])

    assert seen(tmp_path, "a") == [[1]] * 3
    assert [row["run_id"] for row in read_rows(str(tmp_path), RUNS, state="running")] == [killed.run_id]

    write(tmp_path, "a", 2)
    assert seen(tmp_path, "a") == [[2]] * 3
    assert [row["state"] for row in read_rows(str(tmp_path), RUNS)] == ["complete"]


def fold(root, number, *, continues=True):
    """A run that continues the last one: a settled row stays, an open one is replaced by the next run."""
    with running(str(root), "history", "a", continues=continues) as run:
        rows = [{"voter": "settled", "epoch": number}, {"voter": "open", "epoch": 1000 + number}]
        run.append(VOTES, rows, f"epoch >= {number}")
        return sorted(row["epoch"] for row in run.read(VOTES))


def test_a_run_that_continues_replaces_the_open_tail_only(tmp_path):
    """In one commit: each version has every settled row, and one open row."""
    for number in range(4):
        assert fold(tmp_path, number) == [*range(number + 1), 1000 + number]

    place = location(str(tmp_path), VOTES)
    for version in range(4):
        rows = DeltaTable(place, version=version).to_pyarrow_table()["epoch"].to_pylist()
        assert sorted(map(int, rows)) == [*range(version + 1), 1000 + version]
    fold(tmp_path, 9, continues=False)
    assert sorted(row["epoch"] for row in read_rows(str(tmp_path), VOTES)) == [9, 1009]


def test_a_fold_killed_after_its_commit_is_repeated_without_harm(tmp_path):
    fold(tmp_path, 0)
    fold(tmp_path, 1)
    fold(tmp_path, 1)

    assert sorted(row["epoch"] for row in read_rows(str(tmp_path), VOTES)) == [0, 1, 1001]


@pytest.mark.parametrize("names", ["a", "ab"])
def test_rows_that_tasks_stage_are_read_and_committed_with_those_in_memory(tmp_path, names):
    """In one commit a table for all snapshots; the second time they replace the first."""
    rows = pa.table({"slot": pa.array([1, 2], pa.int32()), "keys": pa.array([7, 7])})
    empty = SLOT_LOAD.unlabelled.empty_table()
    for _ in range(2):
        runs = [Run(str(tmp_path), "key-slots", name) for name in names]
        begin_together(runs)
        for run in runs:
            staged = pa.concat_tables([empty, rows], promote_options="default")
            run.for_tasks(SLOT_LOAD).stage(SLOT_LOAD, staged)
            run.wrote(SLOT_LOAD, 2)
            run.append(SLOT_LOAD, [{"slot": 3, "keys": 7}])
            assert sorted(row["slot"] for row in run.read(SLOT_LOAD, ("slot",))) == [1, 2, 3]
        close_together(runs)

    stored = read_rows(str(tmp_path), SLOT_LOAD, order_by="snapshot_id, slot")
    assert [(row["snapshot_id"], row["slot"]) for row in stored] == [
        (name, slot) for name in names for slot in (1, 2, 3)
    ]
    assert DeltaTable(location(str(tmp_path), SLOT_LOAD)).version() == 1


def test_rows_of_other_jobs_of_a_snapshot_stay(tmp_path):
    store(str(tmp_path), "a", {VOTES: [{"voter": "x", "epoch": 1}]}, job="history")
    store(str(tmp_path), "a", {VOTES: [{"voter": "y", "epoch": 2}]}, job="other")
    store(str(tmp_path), "a", {VOTES: [{"voter": "z", "epoch": 3}]}, job="history")

    assert sorted(row["voter"] for row in read_rows(str(tmp_path), VOTES)) == ["y", "z"]


def test_different_figures_fail_the_run_before_its_first_commit(tmp_path):
    write(tmp_path, "a", 1)

    def contradict():
        with running(str(tmp_path), "key-slots", "a") as run:
            run.append(SLOT_LOAD, [{"slot": 1, "keys": 2}])
            run.check("keys", {"silver/slot_load": 3, "silver/sources": 3, "gold/node_load": None})
            run.check("bytes", {"x": 3, "y": 4})

    with pytest.raises(InputError, match="consistency check failed, nothing was replaced: bytes: 3 by x, 4 by y"):
        contradict()

    (failed,) = read_rows(str(tmp_path), RUNS, state="failed")
    assert [(check["of"], check["value"]) for check in failed["checks"]][-2:] == [("x", 3), ("y", 4)]
    assert seen(tmp_path, "a") == [[1]] * 3


@pytest.mark.long
@pytest.mark.parametrize("before", [False, True])
def test_concurrent_runs_of_a_snapshot_have_a_single_winner_in_every_table(tmp_path, before):
    """The other ends in one line, with an exit code of its own."""
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

    winners = [end for end in ends if isinstance(end, int)]
    losers = [end for end in ends if not isinstance(end, int)]
    assert len(winners) >= 1
    assert all(loser.code == TRY_AGAIN == 75 and "run " in loser.line for loser in losers)
    (keys,) = {tuple(keys) for keys in seen(tmp_path, "a")}
    assert keys[0] in winners
    assert all(len(runs) <= 1 for table in WRITTEN for runs, _ in versions(tmp_path, table))


def test_two_restarting_jobs_both_end(tmp_path):
    """The second takes the snapshot from the first; without a pause the first would take it back, and so on."""
    has_begun, is_overtaken = Event(), Event()

    def job(number):
        if number == 2:
            has_begun.wait()
        for attempt in range(1, 9):
            try:
                with running(str(tmp_path), "key-slots", "a") as run:
                    run.append(SLOT_LOAD, [{"slot": 1, "keys": number}])
                    (has_begun if number == 1 else is_overtaken).set()
                    is_overtaken.wait()
                    sleep(0.3)
            except TryAgainError:
                continue
            return attempt
        return None

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(job, (1, 2)))

    assert ends == [2, 1]


def test_a_table_that_a_later_run_replaced_refuses_the_earlier_one(tmp_path, monkeypatch):
    """The earlier run was suspended after its last check of silver/runs."""
    early = Run(str(tmp_path), "key-slots", "a")
    begin_together([early])
    early.append(SLOT_LOAD, [{"slot": 1, "keys": 1}])
    early.append(NODE_LOAD, [{"node_id": "n", "keys": 1}])
    write(tmp_path, "a", 2)
    monkeypatch.setattr(Run, "_earlier", lambda run, rows: [])

    with pytest.raises(TryAgainError, match="a later run replaced these rows"):
        close_together([early])

    assert seen(tmp_path, "a") == [[2]] * 3


def test_a_snapshot_deleted_meanwhile_is_not_written(tmp_path):
    def write_while_deleted():
        with running(str(tmp_path), "key-slots", "a") as run:
            run.append(SLOT_LOAD, [{"slot": 1, "keys": 1}])
            delta_files.commit_rows(str(tmp_path), RUNS, None, "snapshot_id = 'a'")

    with pytest.raises(TryAgainError, match="snapshot a was deleted during this run; run it again"):
        write_while_deleted()

    assert read_rows(str(tmp_path), SLOT_LOAD) == []


def test_a_snapshot_of_one_cluster_is_not_replaced_by_another(tmp_path):
    write(tmp_path, "a", 1, cluster="east")

    with pytest.raises(InputError, match="belongs to cluster east, not west; choose another name"):
        write(tmp_path, "a", 2, cluster="west")

    assert {row["cluster"] for row in read_rows(str(tmp_path), SLOT_LOAD)} == {"east"}


def test_gold_tables_keep_30_days_of_history_and_a_change_feed_others_6_hours(tmp_path):
    write(tmp_path, "a", 1)
    write(tmp_path, "a", 2)
    silver, gold = (DeltaTable(location(str(tmp_path), table)) for table in (SLOT_LOAD, NODE_LOAD))
    changes = gold.load_cdf(starting_version=1).read_all()

    kept = [table.metadata().configuration["delta.logRetentionDuration"] for table in (silver, gold)]
    assert kept == ["interval 6 hours", "interval 30 days"]
    assert FINDINGS.properties == gold.metadata().configuration | dict.fromkeys(
        ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 6 hours"
    ), "each batch of a follower changes the findings that last"
    assert gold.metadata().configuration["delta.enableChangeDataFeed"] == "true"
    assert sorted(zip(changes["_change_type"].to_pylist(), changes["keys"].to_pylist(), strict=True)) == [
        ("delete", 1),
        ("insert", 2),
    ]
    assert gold.metadata().description == NODE_LOAD.about
    assert gold.schema().fields[3].metadata["comment"] == NODE_LOAD.schema.field(3).metadata[b"comment"].decode()


@pytest.mark.long
def test_concurrent_compactions_leave_each_row_once(tmp_path):
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
    assert sorted(row["keys"] for row in read_rows(str(tmp_path), SLOT_LOAD, where="slot = 1")) == list(range(8))


@pytest.mark.long
def test_a_table_that_is_written_for_days_keeps_the_files_of_hours(tmp_path):
    """Also files that the last checkpoint no longer names; each version that is left can be read."""
    root, place, log = str(tmp_path), tmp_path / SLOT_LOAD.name, tmp_path / SLOT_LOAD.name / "_delta_log"
    for number in range(TIDY_EVERY + 12):
        row = {"snapshot_id": "s", "run_id": "r", "slot": 1, "keys": number}
        delta_files.commit_rows(root, SLOT_LOAD, [row], "snapshot_id = 's'")
        if number == 30:  # as if committed long ago
            for path in (*log.glob("*.checkpoint.parquet"), log / "_last_checkpoint"):
                path.unlink()
            for path in (*place.glob("*.parquet"), *log.iterdir()):
                if path.suffix == ".json":
                    path.write_text(re.sub(r'((?:deletionT|t)imestamp":)\d+', r"\g<1>1700000000000", path.read_text()))
                os.utime(path, (1_700_000_000, 1_700_000_000))

    assert [row["keys"] for row in read_rows(root, SLOT_LOAD)] == [TIDY_EVERY + 11]
    assert DeltaTable(str(place), version=40).to_pyarrow_table()["keys"].to_pylist() == [40]
    assert len(list(place.glob("*.parquet"))) == TIDY_EVERY + 12 - 30


def test_a_root_that_cannot_be_written_is_named_before_anything_is_read(tmp_path):
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
def test_concurrent_first_runs_in_an_empty_root_all_succeed(tmp_path):
    """As the jobs of several clusters that one clock starts."""
    commands = [[sys.executable, "-c", JOB, str(tmp_path), f"c{number}", str(number)] for number in range(4)]
    jobs = [
        subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) for command in commands
    ]

    assert [job.wait(120) for job in jobs] == [0] * 4
    assert [seen(tmp_path, f"c{number}") for number in range(4)] == [[[number]] * 3 for number in range(4)]
