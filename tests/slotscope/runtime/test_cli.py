"""The command line of a job: options, exit codes, one line for an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from jobs.main import COMMANDS, FAMILIES, program
from slotscope.options import Common, Paths
from slotscope.runtime import cli
from slotscope.runtime.cli import FORMER_COMMANDS
from slotscope.runtime.errors import InputError
from tests.conftest import DATA

NOTHING = Common()


def command(*, rdb: Paths = (), topology: str | None = None, common: Common = NOTHING) -> int | None:
    """A stand-in for a job: print its options, or fail as *topology* asks."""
    if topology == "bad":
        raise DecodeError("not \x1b[31m an RDB", offset=7, source="x.rdb")
    if topology == "root":
        raise InputError("slotscope: no plan there")
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
        (["--topology", "root"], 2, "slotscope: slotscope: no plan there"),
        (["--topology", "bad"], 2, "slotscope: x.rdb: offset 7: not \\x1b[31m an RDB"),
        (["--topology", "bug"], 1, "slotscope: ZeroDivisionError: division by zero; run again with --debug"),
        (["--topology", "interrupt"], 130, "slotscope: interrupted"),
        (["--topology", "partial"], 3, ""),
        (["--no-such"], 2, "slotscope: Unknown option: --no-such (see --help)"),
        (["--rdb"], 2, "slotscope: Parameter --rdb requires at least 1 element. Got 0 (see --help)"),
        (["--mode", "lax"], 2, None),
    ],
)
def test_the_end_is_an_exit_code_and_one_line(capsys, arguments, code, line):
    """0 done, 1 our fault, 2 bad input or usage, 3 partial, 130 interrupted."""
    ended = cli.run(command, ["--root", "out", *arguments])

    printed = capsys.readouterr().err.rstrip("\n")
    assert ended == code
    assert "\n" not in printed
    assert line is None or printed == line


def test_the_root_is_that_of_the_command_line_else_of_the_environment_else_slotscope_data(capsys, monkeypatch):
    """Nothing is required."""
    monkeypatch.delenv("SLOTSCOPE_ROOT", raising=False)
    assert cli.run(command, []) == 0
    monkeypatch.setenv("SLOTSCOPE_ROOT", "lake")
    assert cli.run(command, []) == 0
    assert cli.run(command, ["--root", "out"]) == 0

    assert [line.split()[2] for line in capsys.readouterr().out.splitlines()] == ["slotscope-data", "lake", "out"]


def test_quiet_prints_errors_only(capsys):
    """For a scheduler: the exit code shows the outcome; arguments of another program are no options of ours."""
    assert cli.run(command, ["--quiet"]) == 0
    assert cli.run(command, ["--quiet", "--topology", "bad"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("slotscope: x.rdb")


def test_debug_shows_the_trace_before_the_line(capsys):
    """For us, not for the user."""
    assert cli.run(command, ["--root", "out", "--topology", "bug", "--debug"]) == 1

    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert printed.splitlines()[-1].startswith("slotscope: ZeroDivisionError")


def test_a_command_with_a_similar_name_is_suggested(capsys):
    assert cli.run(program(), ["lok"]) == 2
    assert capsys.readouterr().err == "slotscope: no such command: lok; did you mean look? (see --help)\n"
    assert cli.run(program(), ["--debug", "look"]) == 2
    assert "slotscope: --debug: write options after the command" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["help", "compare"], ["compare", "--help"], ["compare", "-h"]])
def test_help_of_a_command_is_shown_either_way(capsys, arguments):
    """As with git and gh."""
    assert cli.run(program(), arguments) == 0
    assert "--from" in capsys.readouterr().out


def test_the_list_of_commands_fits_forty_lines_of_eighty_columns(capsys, monkeypatch):
    """One line for each command and family; the help of a family lists its commands."""
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.run(program(), ["--help"]) == 0
    short = capsys.readouterr().out
    families: dict[str, str] = {}
    for family in FAMILIES:
        assert cli.run(program(), [family]) == 0
        families[family] = capsys.readouterr().out

    assert len(short.splitlines()) <= 40
    assert all(f"│ {name.split()[0]} " in short for name in COMMANDS)
    assert all(
        f"│ {own} " in families[family] for family, _, own in (name.rpartition(" ") for name in COMMANDS) if family
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_describes_the_options_that_matter_and_an_example(capsys, monkeypatch, name):
    """Every option that is to be shown exists; defaults are values, not Python; no option is without its name."""
    monkeypatch.setenv("COLUMNS", "80")
    command = COMMANDS[name]
    assert cli.run(program(), [*name.split(), "--help"]) == 0
    short = capsys.readouterr().out
    assert cli.run(program(), [*name.split(), "--help-all"]) == 0
    whole = capsys.readouterr().out
    described = re.findall(r"^│ (?:\* ) *(--[a-z-]+)|^│ +(--[a-z-]+)", short, re.MULTILINE)

    assert " ".join(command.example.split()) in " ".join(short.split())
    assert [f"--{option}" for option in command.options if f"--{option} " not in short] == []
    assert len(described) <= 9
    assert not re.search(r"default: (?:\(|False|\"\"|None)|\?", whole)
    assert set(re.findall(r"--[a-z][a-z-]*", short)) - {"--help-all"} <= set(re.findall(r"--[a-z][a-z-]*", whole))


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["bash"], ["zsh"], ["fish"], []])
def test_completion_knows_commands_and_their_options(capsys, monkeypatch, arguments):
    """Printed for `source <(slotscope --completion bash)`; without a word for the shell that asks."""
    monkeypatch.setenv("FISH_VERSION", "3.7")

    assert cli.run(program(), ["--completion", *arguments]) == 0

    printed = capsys.readouterr().out
    assert "history" in printed
    assert "node-timeout-ms" in printed


@pytest.mark.parametrize("former", FORMER_COMMANDS)
def test_a_former_name_has_the_help_of_the_present_one(capsys, former):
    texts = []
    for arguments in ([former, "--help"], ["help", former], [*FORMER_COMMANDS[former].split(), "--help"]):
        assert cli.run(program(), arguments) == 0
        texts.append(capsys.readouterr().out)

    assert len(set(texts)) == 1


@pytest.mark.parametrize(
    ("arguments", "former", "now"),
    [
        (["history"], "--nodes", "--polls"),
        (["lab", "sentinel-replay"], "--logs", "--log"),
    ],
)
def test_a_former_name_of_an_option_works_and_is_not_shown(capsys, arguments, former, now):
    """Scripts continue to work; help shows one name for one thing."""
    cli.run(program(), [*arguments, "--help"])
    shown = capsys.readouterr().out
    codes = {name: cli.run(program(), [*arguments, name, "/no/such/file"]) for name in (former, now)}

    lines = capsys.readouterr().err.splitlines()
    assert now in shown
    assert former not in shown
    assert codes == {former: 2, now: 2}
    assert lines[0] == lines[1]
    assert "/no/such/file" in lines[0]


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
    assert all(name.split()[0] in done.stdout for name in COMMANDS)


@pytest.mark.processes
def test_an_export_loads_only_needed_modules(tmp_path):
    """Each of these takes a twentieth of a second and more, of all commands on plain files that write no table."""
    script = (
        "import sys\nfrom jobs.export import command\nfrom slotscope.runtime import cli\n"
        "assert cli.run(command, sys.argv[1:]) == 0\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'rich.console', 'numpy.ma', 'duckdb'} & set(sys.modules)))"
    )
    arguments = ["--rdb", DATA / "redis-7.0" / "dump.rdb", "--to", "json", "--out", tmp_path / "keys.json", "--quiet"]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], cwd=root, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.processes
def test_a_program_that_used_duckdb_ends_silently():
    """DuckDB's binding counts uncollected objects and complains of them at exit."""
    script = (
        "import duckdb\nfrom slotscope.runtime import cli\n"
        "def command() -> None:\n    duckdb.sql('SELECT 1').fetchall()\n"
        "cli.main(command, [])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("", "")
