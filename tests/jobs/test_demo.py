"""`slotscope demo` on the session of the tests: commands as one would type them, and pages at the end."""

from __future__ import annotations

import shlex
from glob import glob

import pytest

from jobs.demo import RECORDINGS, Request, command, lay_out, steps
from jobs.main import program
from slotscope.runtime.failure import OK

SHOWN = ["key-slots", "key-slots", "compare", "plan", "plan", "history", "incidents"]
FILES = ("--rdb", "--topology", "--pcap", "--log", "--polls")


@pytest.mark.slow
def test_the_demonstration_shows_commands_that_can_be_typed_and_ends_with_pages(spark, tmp_path, capsys):
    root = str(tmp_path / "shown")

    code = command(Request(root=root))

    output = capsys.readouterr().out
    typed = [shlex.split(line)[2:] for line in output.splitlines() if line.startswith("$ slotscope ")]
    assert code == OK
    assert typed == [arguments for _, arguments in steps(root)]
    assert output.rstrip().splitlines()[-1].startswith(f"{tmp_path}/shown/reports/")
    assert "failover" in output
    assert [line for line in output.splitlines() if line.startswith("== 3 of 7: ")] == [
        "== 3 of 7: Compare both snapshots"
    ]


def test_the_demonstration_takes_the_steps_of_the_tutorial(tutorial, tmp_path):
    """The same commands on the same recordings give the results of the tutorial."""
    app = program()
    lay_out(tmp_path / RECORDINGS)
    taken = [arguments for _, arguments in steps(str(tmp_path))]
    for arguments in taken:
        app.parse_args(arguments, exit_on_error=False, print_error=False)
    files = [arguments[at + 1] for arguments in taken for at, word in enumerate(arguments) if word in FILES]

    assert [arguments[0] for arguments in taken] == SHOWN
    assert [name for name in (shlex.split(line)[1] for line in tutorial.printed) if name in SHOWN] == SHOWN
    assert len(files) == 7
    assert all(glob(pattern) for pattern in files)
