"""The flag that writes traces anew."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/core/sim --rewrite``: scenarios keep the trace that they give now."""
    parser.addoption("--rewrite", action="store_true", help="write the traces of the scenarios anew")
