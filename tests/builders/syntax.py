"""What tests look for in syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement below *tree*, and what holds some: no import is in an expression, and no function that has a name."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)
