"""What a user reads when something is wrong."""

from __future__ import annotations

import pytest
from cyclopts import UnusedCliTokensError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cluster_core.errors import DecodeError, PlanError, TruncatedError
from jobs.main import program
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, CHECK_PASSWORD, UNEXPECTED, describe, printable

TRACE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/worker.py", line 1, in main
    raise TruncatedError(reason, offset=offset, source=source)
{last}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:601)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
{last}
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DecodeError("not an RDB", offset=0, source="a.rdb"), "a.rdb: offset 0: not an RDB"),
        (TruncatedError("ends early", offset=9, source="a.rdb"), "a.rdb: offset 9: ends early"),
        (PlanError("no master is left"), "no master is left"),
        (InputError("no file matches x*"), "no file matches x*"),
        (FileNotFoundError(2, "No such file or directory", "x.rdb"), "x.rdb: No such file or directory"),
        (InputError("a:1: NOAUTH Authentication required."), f"a:1: NOAUTH Authentication required{CHECK_PASSWORD}"),
    ],
)
def test_bad_input_is_one_line_and_code_2(error, line):
    """File, offset, reason, and no trace."""
    assert describe(error) == (BAD_INPUT, line)


@pytest.mark.parametrize("kind", [PySparkException, Py4JError])
@pytest.mark.parametrize(
    ("last", "line"),
    [
        ("cluster_core.errors.TruncatedError: a b.rdb: offset 9: ends early", "a b.rdb: offset 9: ends early"),
        ("cluster_core.errors.DecodeError: x: y: offset 1: bad", "x: y: offset 1: bad"),
        ("slotscope.runtime.errors.InputError: x.rdb: no such file", "x.rdb: no such file"),
        ("PermissionError: [Errno 13] Permission denied: '/d/x.rdb'", "/d/x.rdb: Permission denied"),
        ('FileNotFoundError: [Errno 2] No such file or directory: "it\'s.rdb"', "it's.rdb: No such file or directory"),
    ],
)
def test_an_error_of_an_executor_is_its_own_line(kind, last, line):
    """Only text travels from an executor, wrapped in the traces of two languages."""
    assert describe(kind(TRACE.format(last=last))) == (BAD_INPUT, line)


def test_an_unexpected_error_of_an_executor_is_named():
    """Not the exception of Spark around it."""
    failure = describe(PySparkException(TRACE.format(last="ZeroDivisionError: division by zero")))

    assert failure == (UNEXPECTED, "ZeroDivisionError: division by zero; run again with --debug")


def test_text_of_another_exception_is_not_mistaken_for_an_executors():
    """Only Spark's own exceptions carry traces of executors."""
    failure = describe(ValueError("cluster_core.errors.DecodeError: x: offset 1: bad"))

    assert failure.code == UNEXPECTED


def test_control_characters_are_shown_and_not_obeyed():
    """A file name may contain control sequences."""
    assert printable("a\x1b[2Jb\nc\u202ed\udc80 ü") == "a\\x1b[2Jb\\nc\\u202ed\\udc80 ü"


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), Py4JError("java.io.IOException: No space left on device\n\tat x")]
)
def test_a_full_disk_is_one_line_from_any_writer(error):
    """And no reason to look at a trace."""
    line = "No space left on device: tables are as they were before; make room and run this again"

    assert describe(error) == (UNEXPECTED, line)


def test_a_wrong_value_is_named_without_the_type_of_python(capsys):
    """``int|None`` does not help a user of commands."""
    assert cli.run(program(), ["look", "--seconds", "soon"]) == BAD_INPUT

    assert capsys.readouterr().err == 'slotscope: Invalid value for --seconds: "soon" (see --help)\n'


def test_an_argument_that_no_option_takes_is_named_without_python():
    """No list of Python strings."""
    error = UnusedCliTokensError(unused_tokens=["127.0.0.1:7411", "b"])

    assert describe(error) == (BAD_INPUT, "unexpected argument: 127.0.0.1:7411 b (see --help)")
