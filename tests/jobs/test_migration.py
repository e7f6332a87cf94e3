"""A root of the first form, with a killed run and a follower in it, is brought to the current one."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.main import run
from schemas.catalogue import TABLES
from schemas.gold import NODE_LOAD
from slotscope.pipelines import upkeep
from slotscope.pipelines.upkeep import migrate
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows

OLD = Path(__file__).parents[1] / "data" / "roots" / "form-1.tar.xz"


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Snapshot ``before`` of 6,002 keys, with the rows of a killed run beside it, and a cluster that was followed in two batches."""
    with tarfile.open(OLD) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        packed.extractall(tmp_path)
    return str(tmp_path / "oldroot")


def keys_by_plain_reader(root: str) -> int:
    return sum(DeltaTable(f"{root}/{NODE_LOAD.name}").to_pyarrow_table()["keys"].to_pylist())


def test_a_migrated_root_has_the_valid_rows(root: str) -> None:
    before = keys_by_plain_reader(root)
    with pytest.raises(InputError, match="run: slotscope tables migrate --root"):
        read_rows(root, NODE_LOAD)

    migrate(root)

    assert (before, keys_by_plain_reader(root)) == (12_004, 6_002)
    assert {row["run_id"][-1] for table in TABLES if table.of_runs for row in read_rows(root, table)} & {"+"} == set()
    assert DeltaTable(f"{root}/{NODE_LOAD.name}").metadata().configuration["delta.enableChangeDataFeed"] == "true"
    assert [run(["incidents", "--root", root, "--quiet"]), run(["snapshots", "--root", root])] == [0, 0]


@pytest.mark.long
def test_a_migration_that_was_killed_is_resumed(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last commit the root is one of the old form, without the rows that did not count."""

    def die(*_: object) -> None:
        raise OSError("killed")

    for step in ("_overwrite", "_set_layout"):
        with monkeypatch.context() as killed:
            killed.setattr(upkeep, step, die)
            with pytest.raises(InputError if step == "_overwrite" else OSError, match="killed"):
                migrate(root)
    migrate(root)
    first = {table: DeltaTable(f"{root}/{table.name}").version() for table in TABLES if exists(root, table)}
    migrate(root)

    assert keys_by_plain_reader(root) == 6_002
    assert {table: DeltaTable(f"{root}/{table.name}").version() for table in first} == first


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tables; is --root right"):
        migrate(str(tmp_path))
