"""Every test asserts something, and asserts it whatever it meets: read off the syntax trees of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.builders.syntax import statements

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
WRAPPERS = {"enumerate", "zip", "sorted", "reversed", "list", "tuple", "set", "product", "permutations", "chain"}
"""What they give is as many as what they take."""
NAMED = ("assert", "raises", "fail")
"""A function that is called so asserts: `assert_df_equality`, `pytest.raises`, `pytest.fail`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def functions(tree: ast.AST) -> list[Function]:
    return [node for node in statements(tree) if isinstance(node, Function)]


def called(node: ast.Call) -> str:
    """The last name of a called function: ``raises`` of ``pytest.raises(…)``."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def asserts(node: ast.AST, asserting: frozenset[str]) -> bool:
    """Whether *node* itself, without what stands below it, asserts: by a statement, by a name that says so, or by a function in *asserting*."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    return called(node).startswith(NAMED) or (isinstance(node.func, ast.Name) and node.func.id in asserting)


def is_sure(loop: ast.AST) -> bool:
    """Whether a loop runs at least once as far as a reader can see: over a literal, a constant in capitals or a range."""
    if not isinstance(loop, ast.For):
        return False
    return has_items(loop.iter)


def has_items(node: ast.AST) -> bool:
    """Whether *node* is a literal that holds something, a constant in capitals, or made of such."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return bool(node.elts)
        case ast.Dict():
            return bool(node.keys)
        case ast.Constant():
            return bool(node.value)
        case ast.Name():
            return node.id.isupper()
        case ast.Attribute():
            return node.attr.isupper()
        case ast.Call(func=ast.Attribute(attr="items" | "keys" | "values", value=owner)):
            return has_items(owner)
        case ast.Call() if called(node) == "range":
            return all(map(has_items, node.args[-1:])) or len(node.args) > 1
        case ast.Call() if called(node) in WRAPPERS:
            return bool(node.args) and all(map(has_items, node.args))
        case ast.BinOp():
            return has_items(node.left) and has_items(node.right)
        case ast.Starred():
            return has_items(node.value)
    return False


def sure_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below *node* that are met on every run to its end: not in handlers, inner functions, or loops that may be empty."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Try():
                yield from sure_nodes(ast.Module([*child.body, *child.finalbody], []))
            case ast.For() | ast.AsyncFor() | ast.While() | ast.If() | ast.Match() if not is_sure(child):
                yield child
            case _:
                yield child
                yield from sure_nodes(child)


@cache
def asserting(path: Path) -> frozenset[str]:
    """Names that a module knows of functions that assert whenever they are called: its own, and those it has from other modules under tests."""
    known = set()
    for node in statements(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            source = TESTS.parent / f"{node.module.replace('.', '/')}.py"
            known |= {
                name.asname or name.name for name in node.names if source.exists() and name.name in asserting(source)
            }
    left = functions(tree(path))
    while strong := [test for test in left if is_strong(test, frozenset(known))]:
        known |= {test.name for test in strong}
        left = [test for test in left if test not in strong]
    return frozenset(known)


def is_strong(node: ast.AST, asserting: frozenset[str]) -> bool:
    """Whether *node* asserts on every run, or whichever way its branches go."""
    return any(asserts(part, asserting) for part in sure_nodes(node)) or any(
        all(is_strong(ast.Module(body, []), asserting) for body in (branch.body, branch.orelse))
        for branch in sure_nodes(node)
        if isinstance(branch, ast.If)
    )


def weak(tests: Iterable[Function], asserting: frozenset[str]) -> list[str]:
    return [test.name for test in tests if test.name.startswith("test_") and not is_strong(test, asserting)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_each_test_asserts_something_on_every_run(path):
    """An assertion in a loop over what may be empty, or in a branch, proves nothing on the day when it is not reached."""
    assert weak(functions(tree(path)), asserting(path)) == []


def test_a_weak_test_is_detected():
    source = """
def test_nothing(): go()
def test_loop():
    for row in rows(): assert row
def test_branch():
    if rows(): assert rows()
def test_literal():
    for row in (1, 2): assert row
def test_constant():
    for name, row in enumerate(ROWS): assert row
def test_plain():
    for row in rows(): assert row
    assert rows()
def test_named():
    with pytest.raises(ValueError): go()
"""

    assert weak(functions(ast.parse(source)), frozenset()) == ["test_nothing", "test_loop", "test_branch"]
