"""A broken installation is named before a command fails in the middle."""

from __future__ import annotations

from importlib.metadata import PathDistribution

import pytest

from cluster_core.routing import key_positions
from jobs.main import run
from slotscope.runtime import installation
from slotscope.runtime.installation import check_installation, missing_files, missing_packages


@pytest.fixture
def installed(tmp_path) -> PathDistribution:
    """A distribution of two files and three requirements, as pip records it."""
    info = tmp_path / "slotscope-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: slotscope\nVersion: 0.1.0\nRequires-Dist: numpy>=2\nRequires-Dist: not-there<6,>=5\n"
        'Requires-Dist: numpy>=2; extra == "spark"\nRequires-Dist: not-whole>=1; extra == "spark"\n'
        'Requires-Dist: not-asked>=1; extra == "dev"\nRequires-Dist: not-here; sys_platform == "plan9"\n'
    )
    (info / "RECORD").write_text("slotscope/a.py,,\nslotscope/b.json,,\nslotscope/__pycache__/a.pyc,,\n")
    (tmp_path / "slotscope").mkdir()
    (tmp_path / "slotscope" / "a.py").touch()
    return PathDistribution(info)


def test_this_installation_is_complete():
    assert check_installation() is None


def test_files_of_the_record_and_required_packages_that_are_missing_are_named(installed):
    """Bytecode is made again; the extra "spark" was asked for where PySpark is installed."""
    assert missing_files(installed) == ["slotscope/b.json"]
    assert missing_packages(installed) == ["package not-there", 'package not-whole (extra "spark")']


def test_setup_fails_in_one_line_where_a_table_of_commands_is_missing(monkeypatch, tmp_path, capsys):
    """As in a wheel that was built without its data files."""
    key_positions.table_of.cache_clear()
    monkeypatch.setattr(key_positions, "files", lambda _: tmp_path)

    code = run(["setup"])
    key_positions.table_of.cache_clear()

    assert code == 2
    assert capsys.readouterr().err == (
        "slotscope: the installation is incomplete: no commands of redis-7.0 and 1 more; install slotscope again\n"
    )


def test_setup_names_the_first_missing_part(monkeypatch, installed, capsys):
    monkeypatch.setattr(
        installation, "distribution", lambda name: installed if name == "slotscope" else _not_there(name)
    )

    assert run(["setup"]) == 2
    assert "no slotscope/b.json and 2 more" in capsys.readouterr().err


def _not_there(name: str) -> None:
    raise installation.PackageNotFoundError(name)
