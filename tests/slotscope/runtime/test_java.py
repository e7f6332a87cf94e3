"""The Java that Spark starts, and the error where it will not do."""

from __future__ import annotations

import pytest

from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.java import find_java_home


@pytest.fixture
def fake_java(tmp_path):
    """Make a home with a ``java`` of a version."""

    def make(version: str) -> str:
        home = tmp_path / f"jdk-{version}"
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho '    java.home = {home}\n    java.specification.version = {version}' >&2\n")
        java.chmod(0o755)
        return str(home)

    return make


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_is_taken_before_path(monkeypatch, fake_java, version):
    in_path, home = fake_java("99"), fake_java(version)
    monkeypatch.setenv("PATH", f"{in_path}/bin")
    monkeypatch.setenv("JAVA_HOME", home)
    assert find_java_home() == home

    monkeypatch.delenv("JAVA_HOME")
    assert find_java_home() == in_path


def test_an_old_broken_or_missing_java_is_named_with_the_needed_version(monkeypatch, fake_java):
    monkeypatch.setenv("PATH", "/nowhere")
    errors = []
    for home in (fake_java("1.8"), fake_java("11"), "/gone", None):
        monkeypatch.setenv("JAVA_HOME", home) if home else monkeypatch.delenv("JAVA_HOME")
        with pytest.raises(InputError, match="needs Java 17 or newer: ") as caught:
            find_java_home()
        errors.append(str(caught.value).partition(": ")[2])

    assert [error.rpartition("/")[2] for error in errors[:3]] == [
        "jdk-1.8 is Java 8", "jdk-11 is Java 11", "gone is not a working Java",
    ]  # fmt: skip
    assert errors[3] == "JAVA_HOME is not set and there is no java in PATH"
