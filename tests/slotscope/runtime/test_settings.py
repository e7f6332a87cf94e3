"""Settings: one file, replaced by another file, replaced by the command line."""

from __future__ import annotations

import pytest

from slotscope.runtime.errors import InputError
from slotscope.runtime.settings import read_settings


@pytest.fixture
def conf_file(tmp_path):
    """Write a file of settings and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text, "utf-8")
        return str(path)

    return write


def test_the_command_line_is_over_the_users_file_and_that_over_ours(conf_file):
    """Style: order command line, file."""
    path = conf_file("[lists]\ntop = 7\ntop_per_slot = 8\n")

    settings = read_settings(path, top=9, separators=None)

    assert (settings.top, settings.top_per_slot) == (9, 8)
    assert settings.separators == read_settings().separators


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[lists]\ntopp = 7", "topp is not a setting"),
        ("top = 7.5", "top must be a whole number"),
        ("top = true", "top must be a whole number"),
        ("separators = 1", "separators must be text in quotes"),
        ('separators = ""', "separators must not be empty"),
        ("top = 0", "top is 0; it must be from 1 to 100000"),
        ("top = ", "Invalid value"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(conf_file, text, reason):
    """A typing error must not silently leave the default in force."""
    path = conf_file(text)

    with pytest.raises(InputError, match=reason) as caught:
        read_settings(path)

    assert str(caught.value).startswith(path)


def test_a_wrong_option_is_named_as_the_user_typed_it():
    """``--top-per-slot``, not ``top_per_slot``."""
    with pytest.raises(InputError, match=r"^--top-per-slot is 0"):
        read_settings(top_per_slot=0)


def test_a_file_that_is_not_text_or_not_there_is_an_error(tmp_path):
    """Both name the file."""
    (tmp_path / "x.toml").write_bytes(b"top = 1\xff")

    with pytest.raises(InputError, match="offset 7: not UTF-8"):
        read_settings(str(tmp_path / "x.toml"))
    with pytest.raises(FileNotFoundError):
        read_settings(str(tmp_path / "none.toml"))
