"""Notebooks of docs/notebooks run, and their stored output is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.notebooks import code_cells, run_cell, stored_text

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_real_output(asked_root: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTSCOPE_ROOT", asked_root)
    names: dict[str, object] = {}
    cells = code_cells(path)
    shown = [run_cell(cell, names) for cell in cells]

    assert shown == [stored_text(cell) for cell in cells]
    assert len([text for text in shown if text]) > 3


def test_there_is_a_notebook() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first-questions"]
