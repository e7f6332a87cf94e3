"""One command of `slotscope` in a process of its own, with a clock at the doors of its parts: prints seconds of each as JSON."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PARTS = ("start of Spark", "commits", "reads", "report", "the rest")
_DOORS = {
    "start of Spark": (("slotscope.runtime.spark.session", "spark_session"),),
    "commits": (("slotscope.runtime.storage.delta_files", "_write"),),
    "reads": (("slotscope.runtime.storage.delta_files", "_answer"),),
    "report": (("slotscope.reports.delivery", "deliver"),),
}
"""Functions of which each is called by its module's other functions, or imported when its command runs."""


def main(arguments: list[str]) -> None:
    """Run the command that *arguments* are, its output unseen."""
    from jobs.main import main as slotscope

    begun = time.perf_counter()
    spent = dict.fromkeys(PARTS, 0.0)
    for part, doors in _DOORS.items():
        for module, name in doors:
            _time(module, name, part, spent)
    with contextlib.redirect_stdout(io.StringIO()):
        code = _code(lambda: slotscope(arguments))
    spent["the rest"] = max(0.0, time.perf_counter() - begun - sum(spent.values()))
    print(json.dumps(spent))
    sys.exit(code)


def _time(module: str, name: str, part: str, spent: dict[str, float]) -> None:
    home = importlib.import_module(module)
    asked: Callable[..., Any] = getattr(home, name)

    @functools.wraps(asked)
    def timed(*positional: Any, **named: Any) -> Any:
        with _clock(part, spent):
            return asked(*positional, **named)

    setattr(home, name, timed)


@contextlib.contextmanager
def _clock(part: str, spent: dict[str, float]) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        spent[part] += time.perf_counter() - start


def _code(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    main(sys.argv[1:])
