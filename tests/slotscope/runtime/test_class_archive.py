"""The classes of Spark's JVM are archived by the first session and mapped by the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotscope.runtime.spark.class_archive import ARCHIVES_MAX, WANTED, archive_of, keep, options

ROOT = Path(__file__).parents[3]
PROGRAM = """
from pathlib import Path
from pyspark import SparkContext
from slotscope.runtime.spark.session import spark_session

print(spark_session("classes", master="local[1]").range(3).count())
print(".jsa" in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text().replace("classes.jsa", "").replace("classes_nocoops.jsa", ""))
"""


def test_another_jar_or_java_has_another_archive(tmp_path):
    """A file that was fetched again is another one, too: the JVM would refuse the archive for ever."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    first = archive_of("/java/17", [str(jar)])
    same = archive_of("/java/17", [str(jar)])
    jar.write_bytes(b"another")

    assert same == first
    assert len({first, archive_of("/java/17", [str(jar)]), archive_of("/java/21", [str(jar)])}) == 3


def test_a_session_starts_from_the_archive_or_makes_it_where_that_is_wanted(tmp_path, monkeypatch):
    """Where it cannot be kept the JVM is told nothing, and spends nothing on it."""
    monkeypatch.delenv(WANTED, raising=False)
    assert options(tmp_path / "k.jsa", tmp_path / "f.jsa") == ""

    monkeypatch.setenv(WANTED, "1")
    kept, fresh = tmp_path / "cache" / "k.jsa", tmp_path / "f.jsa"
    assert f"-XX:ArchiveClassesAtExit={fresh}" in options(kept, fresh)

    kept.write_bytes(b"")
    assert f"-XX:SharedArchiveFile={kept}" in options(kept, fresh)

    (tmp_path / "file").write_text("")
    assert options(tmp_path / "file" / "k.jsa", fresh) == ""
    assert options(tmp_path / "a:b" / "k.jsa", fresh) == ""


@pytest.mark.parametrize(("code", "there"), [(0, True), (1, False)])
def test_only_what_a_jvm_wrote_to_its_end_is_kept_and_the_oldest_make_room(tmp_path, code, there):
    """The program that stands for the JVM ends when its input does, as that does."""
    kept, fresh = tmp_path / "new.jsa", tmp_path / "fresh" / "classes.jsa"
    fresh.parent.mkdir()
    for number in range(ARCHIVES_MAX):
        (tmp_path / f"{number}.jsa").write_bytes(b"old")
        os.utime(tmp_path / f"{number}.jsa", (number, number))
    script = f"import sys; sys.stdin.read(); open({str(fresh)!r}, 'w').write('classes'); sys.exit({code})"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as jvm:
        keep(jvm, fresh, kept)

    assert kept.exists() is there
    assert len(list(tmp_path.glob("*.jsa"))) == ARCHIVES_MAX
    assert (tmp_path / "0.jsa").exists() is not there


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process has mapped is read from /proc")
def test_the_second_session_maps_what_the_first_archived(tmp_path):
    """And neither says a word of it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), WANTED: "1"}
    seen = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, env=environment)
        for _ in range(2)
    ]

    assert [run.stdout.split() for run in seen] == [["3", "False"], ["3", "True"]]
    assert [run.stderr for run in seen] == ["", ""]
    assert len(list(tmp_path.rglob("*.jsa"))) == 1
