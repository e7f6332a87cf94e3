"""The examples of docs/following.md, and the options that the page names."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

from jobs.follow import Request
from slotscope.sources.bus.point_series import CLOCK, GONE, LATE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "following.md").read_text(encoding="utf-8")
UNIT = EXAMPLES / "slotscope-follow.service"


def command_of(text: str) -> list[str]:
    """The words behind the program."""
    words = shlex.split(text)
    return words[next(at for at, word in enumerate(words) if word.endswith("bin/slotscope")) + 1 :]


def test_every_option_of_the_examples_and_the_page_exists() -> None:
    known = {field.name.replace("_", "-") for field in fields(Request)}
    unit = re.search(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    cron = (EXAMPLES / "slotscope-follow.cron").read_text(encoding="utf-8").splitlines()[-1]
    assert unit is not None
    commands = [command_of(unit[1]), command_of(cron)]

    assert [command[0] for command in commands] == ["follow"] * 2
    assert {word[2:] for command in commands for word in command if word.startswith("--")} <= known
    assert set(re.findall(r"`--([a-z][a-z-]+)", PAGE)) <= known


def test_the_page_names_every_reason_and_every_example() -> None:
    assert set(re.findall(r"`([a-z-]+)`", PAGE)) >= {LATE, GONE, CLOCK}
    assert {path.name for path in EXAMPLES.glob("slotscope-follow*")} == set(re.findall(r"examples/([\w.-]+\w)", PAGE))
