"""`slotscope demo` on the session of the tests: commands as one would type them, and pages at the end."""

from __future__ import annotations

import shlex

from jobs.demo import command, steps
from slotscope.requests.demo import Request
from slotscope.runtime import code_zip
from slotscope.runtime.failure import OK


def test_the_demonstration_shows_commands_that_can_be_typed_and_ends_with_pages(spark, tmp_path, capsys):
    root = str(tmp_path / "shown")

    code = command(Request(root=root))

    told = capsys.readouterr().out
    typed = [shlex.split(line)[2:] for line in told.splitlines() if line.startswith("$ slotscope ")]
    assert code == OK
    assert typed == [words for _, words in steps(root)]
    assert told.rstrip().splitlines()[-1].startswith(f"{tmp_path}/shown/reports/")
    assert "failover" in told


def test_the_zip_for_executors_does_not_carry_the_recorded_clusters(tmp_path):
    assert b"demo_data" not in code_zip.build(tmp_path / "code.zip").read_bytes()
