"""Reads the files of ``conf/``, which are packed beside this package: from a checkout, from a wheel and from
the zip alike.
"""

from __future__ import annotations

from importlib.resources import files


def read_conf(name: str) -> str:
    """Text of ``conf/<name>`` (``slotscope/conf`` is that folder)."""
    return files("slotscope").joinpath("conf", name).read_text("utf-8")


def read_properties(name: str) -> dict[str, str]:
    """A Spark properties file as a dict: a key, white space, the value; ``#`` starts a comment line."""
    pairs = (line.strip().split(None, 1) for line in read_conf(name).splitlines() if not line.lstrip().startswith("#"))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
