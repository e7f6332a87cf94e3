"""Which Java is taken, and what is said when none will do."""

from __future__ import annotations

import stat

import pytest

from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.java import find_java_home


@pytest.fixture
def fake_java(tmp_path):
    """Make a home with a ``java`` that says *version*, with or without a ``release`` file."""

    def make(name: str, version: str, *, release: bool) -> str:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.version = {version}' >&2\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        if release:
            (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        return str(home)

    return make


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25"])
def test_java_home_comes_first_when_it_is_new_enough(monkeypatch, fake_java, version, release):
    """With or without java in PATH."""
    home = fake_java("jdk", version, release=release)
    monkeypatch.setenv("JAVA_HOME", home)

    assert find_java_home() == home


@pytest.mark.parametrize("release", [True, False])
def test_a_java_in_path_replaces_an_old_java_home(monkeypatch, fake_java, release):
    """A shell without JAVA_HOME, or with one that points to something else."""
    new = fake_java("new", "17.0.1", release=release)
    monkeypatch.setenv("JAVA_HOME", fake_java("old", "1.8.0", release=release))
    monkeypatch.setenv("PATH", f"{new}/bin:/usr/bin:/bin")

    assert find_java_home() == new

    monkeypatch.delenv("JAVA_HOME")

    assert find_java_home() == new


def test_what_was_found_is_said(monkeypatch, fake_java, tmp_path):
    """One line: what is needed, what is there."""
    old = fake_java("old", "1.8.0", release=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", f"{old}/bin")

    with pytest.raises(InputError) as caught:
        find_java_home()

    said = f"needs Java 17 or newer: JAVA_HOME={tmp_path}/gone is not a working Java; {old}/bin/java is Java 8"
    assert str(caught.value) == said


def test_no_java_at_all_is_said(monkeypatch):
    """Neither variable nor program."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(InputError, match="JAVA_HOME is not set and there is no java in PATH"):
        find_java_home()
