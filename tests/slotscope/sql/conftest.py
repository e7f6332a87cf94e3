"""Tables that queries are tried on."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def asked_root(spark: SparkSession, asked_root: str) -> str:
    """The root of the cookbook, whose tables and views the session names."""
    from slotscope import register_views

    register_views(spark, asked_root)
    return asked_root
