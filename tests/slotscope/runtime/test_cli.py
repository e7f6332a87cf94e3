"""The command line of a job: options, exit codes, one line for an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from jobs.main import ABOUT, COMMANDS
from slotscope.requests.options import Common, Paths
from slotscope.runtime import cli


def command(*, rdb: Paths = (), topology: str | None = None, common: Common) -> int | None:
    """Pretend to be a job: say what it got, or fail as *topology* asks."""
    if topology == "bad":
        raise DecodeError("not \x1b[31m an RDB", offset=7, source="x.rdb")
    if topology == "bug":
        raise ZeroDivisionError("division by zero")
    if topology == "interrupt":
        raise KeyboardInterrupt
    if topology == "partial":
        return cli.PARTIAL
    sys.stdout.write(f"{rdb} {topology} {common.root} {common.mode}\n")
    return None


def test_a_flag_takes_several_values_and_may_be_repeated(capsys):
    """``--rdb A B --rdb 'C*'``, as a shell expands a glob."""
    code = cli.run(command, ["--rdb", "a", "b", "--root", "out", "--rdb", "c*", "--topology", "nodes"])

    assert code == 0
    assert capsys.readouterr().out == "('a', 'b', 'c*') nodes out strict\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--topology", "bad"], 2, "slotscope: x.rdb: offset 7: not \\x1b[31m an RDB"),
        (["--topology", "bug"], 1, "slotscope: ZeroDivisionError: division by zero; run again with --debug"),
        (["--topology", "interrupt"], 130, "slotscope: interrupted"),
        (["--topology", "partial"], 3, ""),
        (["--no-such"], 2, "slotscope: Unknown option: --no-such (see --help)"),
        (["--rdb"], 2, "slotscope: Parameter --rdb requires at least 1 element. Got 0 (see --help)"),
        (["--mode", "lax"], 2, None),
    ],
)
def test_an_exit_code_and_one_line_say_how_it_ended(capsys, arguments, code, line):
    """0 done, 1 our fault, 2 bad input or usage, 3 partial, 130 interrupted."""
    ended = cli.run(command, ["--root", "out", *arguments])

    printed = capsys.readouterr().err.rstrip("\n")
    assert ended == code
    assert "\n" not in printed
    assert line is None or printed == line


def test_a_missing_root_is_a_usage_error(capsys):
    """Every job writes somewhere."""
    assert cli.run(command, []) == 2
    assert "--root" in capsys.readouterr().err


def test_debug_shows_the_trace_before_the_line(capsys):
    """For us, not for the user."""
    assert cli.run(command, ["--root", "out", "--topology", "bug", "--debug"]) == 1

    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert printed.splitlines()[-1].startswith("slotscope: ZeroDivisionError")


def test_an_unknown_job_is_one_line_and_loads_no_job(capsys):
    """The list of jobs must not cost the import of Spark."""
    assert cli.run(cli.application(ABOUT, {"nowhere": ("no.such:module", "?")}), ["nope"]) == 2
    assert capsys.readouterr().err == "slotscope: no such job: nope (see --help)\n"


@pytest.mark.processes
def test_help_lists_every_job_without_loading_spark():
    """`slotscope --help` answers at once: neither Spark nor numba nor Arrow is imported."""
    script = (
        "import sys\nfrom jobs.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'pyspark', 'numba', 'numpy', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert all(name in done.stdout for name in COMMANDS)
