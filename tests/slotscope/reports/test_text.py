"""Names, sizes and shares as text: it can be read back and has no effect on a terminal or page."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotscope.runtime import text

_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u\{([0-9a-f]+)\}|(\\\\)|(.)", re.DOTALL)


def read_back(shown: str) -> bytes:
    """Undo the escapes of `text.shown`."""
    parts = []
    for byte, code, backslash, character in _ESCAPE.findall(shown):
        if byte:
            parts.append(bytes([int(byte, 16)]))
        else:
            parts.append((chr(int(code, 16)) if code else "\\" if backslash else character).encode())
    return b"".join(parts)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"user:1", "user:1"),
        ("größe:日本".encode(), "größe:日本"),
        (b"\x1b[31mred", r"\x1b[31mred"),
        (b"a\x00b\x7f", r"a\x00b\x7f"),
        (b"\xff\xc3(", r"\xff\xc3("),
        ("a\u202eb\u2066c".encode(), r"a\u{202e}b\u{2066}c"),
        ("a\u200bb\ufeff".encode(), r"a\u{200b}b\u{feff}"),
        ("a\u0085b\u2028c\u2029".encode(), r"a\u{85}b\u{2028}c\u{2029}"),
        (b"a\\x00", r"a\\x00"),
        (b" a b ", r"\x20a b\x20"),
        (b" ", r"\x20"),
        (b"", '""'),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ],
)
def test_unsafe_characters_of_a_name_are_escaped(key: bytes, expected: str) -> None:
    """Control (Unicode category Cc) and format characters (Cf), and bytes that are not UTF-8 (RFC 3629)."""
    assert text.shown(key) == expected


@given(st.binary(min_size=1, max_size=200))
def test_any_name_can_be_read_back_from_its_shown_form(key: bytes) -> None:
    assert read_back(text.shown(key, 10_000)) == key


@given(st.text(min_size=1, max_size=100), st.integers(0, 80))
def test_shown_names_are_short_and_printable(name: str, limit: int) -> None:
    """No character of a category that a terminal or browser acts upon is left, and the limit holds."""
    shown = text.shown(name.encode("utf-8", "surrogatepass"), limit)

    assert len(shown) <= max(limit, text.KEY_LENGTH_MIN)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.binary(max_size=100))
def test_a_plain_terminal_gets_ascii_only(key: bytes) -> None:
    """With *ascii_only* every other character is escaped, and still nothing is lost."""
    shown = text.shown(key, 10_000, ascii_only=True)

    assert shown.isascii()
    assert not key or read_back(shown) == key


def test_a_long_name_keeps_its_ends_and_says_its_length() -> None:
    """A key of 10 kB is one short line."""
    shown = text.shown(b"head:" + b"x" * 10_000 + b":tail")

    assert shown.startswith("head:x")
    assert shown.endswith("x:tail")
    assert "…10,010 bytes…" in shown
    assert len(shown) <= text.KEY_LENGTH_MAX


def test_a_long_name_is_not_cut_within_a_character_or_an_escape() -> None:
    """The cut falls between characters, whatever bytes it would fall on."""
    for shift in range(8):
        shown = text.shown(b"a" * shift + "日".encode() * 500 + b"\x00" * 500, 60)

        assert re.fullmatch(r"a{0,7}日+…[0-9,]+ bytes…(\\x00)+", shown)


def test_marks_do_not_pile_up() -> None:
    """Combining marks above what scripts use would draw over the lines around them."""
    assert text.shown(("e" + "\u0301" * 4).encode()) == "e\u0301\u0301\\u{301}\\u{301}"


def test_own_text_keeps_its_backslashes() -> None:
    """A warning may quote a key that is already escaped; a path may hold bytes that are not UTF-8."""
    assert text.printable(r"key \x00" + "\x1b\udcff") == r"key \x00\x1b\xff"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (None, "—"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (41_200_000, "41.2 MB"),
        (474_481_158, "474 MB"),
        (2**63, "9.22 EB"),
    ],
)
def test_a_size_has_three_digits(number: int | None, expected: str) -> None:
    """Decimal units, as files are measured."""
    assert text.size(number) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 10, "0 %"),
        (1, 10_000, "<0.1 %"),
        (1, 100, "1.0 %"),
        (52, 100, "52 %"),
        (9_999, 10_000, ">99 %"),
        (10, 10, "100 %"),
        (1, 0, "—"),
        (None, 5, "—"),
    ],
)
def test_only_zero_is_0_percent_and_only_the_total_is_100(part: int | None, whole: int, expected: str) -> None:
    """Rounding never gives 0 % or 100 % for other shares."""
    assert text.percent(part, whole) == expected


def test_numbers_are_grouped_and_signed() -> None:
    assert text.count(12_345) == "12,345"
    assert text.signed_count(1_000) == "+1,000"
    assert text.signed_size(-41_200_000) == "−41.2 MB"
