"""The comparison of replays with what sentinels answered."""

from __future__ import annotations

import json

import pytest

from jobs.sentinel_fidelity import Request, command
from slotscope.runtime.errors import InputError
from tests.benches.sentinel_recordings import RECORDINGS


@pytest.mark.long
def test_it_prints_the_share_of_equal_samples_and_found_events(capsys: pytest.CaptureFixture[str]) -> None:
    """From four sets of evidence; none is worse with more."""
    code = command(Request(str(RECORDINGS / "valkey-9.1"), least=99.0))

    lines = capsys.readouterr().out.splitlines()
    assert code is None
    assert [line[33:51].strip() for line in lines[:-1]] == ["capture", "capture, no events", "logs", "capture logs"]
    assert "100.000 %  155/155" in lines[0]
    assert "events 57/57" in lines[0]
    assert not any("WORSE" in line for line in lines)
    assert lines[-1].startswith("lowest: ")


@pytest.mark.long
def test_the_same_is_said_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One object: the lowest percentage, and each comparison."""
    command(Request(str(RECORDINGS / "valkey-9.1"), json=True))

    told = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in told["judged"]] == ["capture", "capture, no events", "logs", "capture logs"]
    assert told["judged"][0] | {"told": ""} == {
        "recording": told["judged"][0]["recording"], "what": "capture", "percent": 100.0, "right": 155, "rows": 155, "told": "", "wrong": [], "counted": 100.0,
    }  # fmt: skip
    assert told["lowest"] == min(one["counted"] for one in told["judged"] if one["counted"] is not None)


def test_a_folder_without_recordings_is_refused(tmp_path) -> None:
    """One line that says what is looked for."""
    with pytest.raises(InputError):
        command(Request(str(tmp_path)))
