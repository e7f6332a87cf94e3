"""Run notebooks for tests: code cells in order, in one namespace, with the shown value of each last expression."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def stored_text(cell: dict[str, Any]) -> str | None:
    """The text of the result that is stored below a cell."""
    texts = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
    return texts[0] if texts else None


def run_cell(cell: dict[str, Any], names: dict[str, Any]) -> str | None:
    """Run a cell with *names*; what its last line shows, None if that is no expression."""
    tree = ast.parse("".join(cell["source"]))
    *_, last = tree.body
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
