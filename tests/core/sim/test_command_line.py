"""``python -m cluster_core.sim``: plays one scenario and says what went wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cluster_core.sim.__main__ import main
from tests.builders.bus_comparison import captured

FOLDER = Path(__file__).parents[2] / "scenarios"


@pytest.fixture
def call(monkeypatch):
    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["sim", *arguments])
        return main()

    return run


def test_a_scenario_is_played_and_its_trace_printed(call, capsys, tmp_path):
    """Exit code 0; the messages go to a file if one is named."""
    messages = tmp_path / "bus.pcap"

    code = call(str(FOLDER / "bump-epoch.txt"), "--messages", str(messages))

    assert code == 0
    assert "takes epoch 4 without consensus" in capsys.readouterr().out
    assert len(captured([messages.read_bytes()]).messages) > 20


def test_what_was_not_as_expected_is_said(call, capsys, tmp_path):
    """Exit code 1, and the line of the scenario."""
    scenario = tmp_path / "wrong.txt"
    scenario.write_text("cluster masters=3 replicas=0\nat 3s crash M1\nend 12s\nexpect state ok\n")

    code = call(str(scenario))

    assert code == 1
    assert "not as expected: line 4: expect state ok" in capsys.readouterr().err


def test_a_mistake_in_a_scenario_is_one_line(call, capsys, tmp_path):
    """Exit code 2, line and column."""
    scenario = tmp_path / "bad.txt"
    scenario.write_text("cluster masters=3\nat 3s crush M1\nend 12s\n")

    code = call(str(scenario))

    assert code == 2
    assert capsys.readouterr().err == f"{scenario}:2:7: 'crush' is nothing that can be done\n"
    assert call(str(tmp_path / "missing.txt")) == 2


@pytest.mark.long
def test_a_scenario_by_chance_is_played_from_its_number(call, capsys):
    """With its text, so that it can be kept."""
    assert call("--random", "5", "--text") == 0
    assert capsys.readouterr().out.startswith("title By chance, seed 5\n")
