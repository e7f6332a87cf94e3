"""What lies in a landing where it is not followed is said, once."""

from __future__ import annotations

import os

import pytest

from slotscope.pipelines.bus.strays import Strays

FILE = "20261122T233600.000000Z_20261122T233700.004711Z.pcap.gz"


@pytest.mark.parametrize("landing", ["/data/landing", "/data//landing/", "/data/x/../landing", "s3a://b/landing/"])
def test_a_file_that_lies_too_deep_is_nobodys_and_is_said_with_the_folder_to_follow(landing):
    home = "s3a://b/landing" if "://" in landing else "/data/landing"
    strays = Strays(landing)
    deep = f"{home}/europe/shop/h1/bus/{FILE}"

    assert strays.is_one(deep)
    assert not strays.is_one(f"{home}/shop/h1/bus/{FILE}")
    assert list(strays.lines([deep, f"{home}/europe/cart/h1/bus/{FILE}"])) == [
        f"{home}/europe: 2 recorded files below it not followed: they lie deeper than CLUSTER/POINT/KIND; "
        f"follow that folder with --landing {home}/europe and a --root of its own"
    ]
    assert list(strays.lines([deep])) == []


def test_what_no_recorder_named_is_not_spoken_of():
    assert list(Strays("/data/landing").lines(["/data/landing/a/b/c/d/e/notes.gz"])) == []


def test_a_folder_whose_name_is_not_utf_8_is_said(tmp_path):
    """A JVM does not list it."""
    root = os.fsencode(tmp_path)
    os.makedirs(root + b"/caf\xe9/h1/bus")
    os.makedirs(root + b"/shop/h\xff/bus")
    os.makedirs(root + b"/shop/h2/bus")

    strays = Strays(str(tmp_path))

    assert list(strays.lines([])) == [
        f"{tmp_path}/caf\\xe9: not followed: its name is not UTF-8; rename it",
        f"{tmp_path}/shop/h\\xff: not followed: its name is not UTF-8; rename it",
    ]
    assert list(strays.lines([])) == []
