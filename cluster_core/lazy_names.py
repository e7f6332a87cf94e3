"""Lazy public names of a package (PEP 562): each is imported from its module on first use.

A package uses ``__all__, __getattr__, __dir__ = lazy_names(__name__)``; its stub ``__init__.pyi`` imports each public name
from its module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Any


def lazy_names(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of *package*."""
    modules = read_stub(get_data(package, "__init__.pyi") or b"")

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(modules)
    return names, find, lambda: names


def read_stub(text: bytes) -> dict[str, str]:
    """Return the module of each name that a stub imports.

    >>> read_stub(b"from cluster_core.errors import DecodeError as DecodeError, PlanError as PlanError")
    {'DecodeError': 'cluster_core.errors', 'PlanError': 'cluster_core.errors'}
    """
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
