"""Key lists: one key per line, raw as from ``redis-cli --scan`` or quoted as for ``--quoted-input``."""

from __future__ import annotations

from cluster_core.errors import DecodeError

LINE_BYTES_MAX = 1 << 26
"""Longer lines are errors."""

_HEX = b"0123456789abcdefABCDEF"
_ESCAPES = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}
_BACKSLASH = ord("\\")
_QUOTE = ord('"')


def is_quoted(line: bytes) -> bool:
    """Return whether *line* is one quoted key: quotes at both ends, none unescaped between."""
    if len(line) < 2 or line[0] != _QUOTE or line[-1] != _QUOTE:
        return False
    index = 1
    while index < len(line) - 1:
        if line[index] == _BACKSLASH:
            index += 1
        elif line[index] == _QUOTE:
            return False
        index += 1
    return index == len(line) - 1


def unquote(line: bytes, *, source: str = "<line>", offset: int = 0) -> bytes:
    r"""Unquote a key: ``\xHH``, ``\n \r \t \b \a``, else the escaped byte (`sdssplitargs`); DecodeError if not quoted."""
    if not is_quoted(line):
        raise DecodeError("unbalanced quotes in this line", offset=offset, source=source)
    if _BACKSLASH not in line:
        return line[1:-1]
    key = bytearray()
    index = 1
    while index < len(line) - 1:
        byte = line[index]
        if byte == _BACKSLASH:
            index += 1
            byte = line[index]
            digits = line[index + 1 : min(index + 3, len(line) - 1)]
            if byte == ord("x") and len(digits) == 2 and all(digit in _HEX for digit in digits):
                byte = int(digits, 16)
                index += 2
            else:
                byte = _ESCAPES.get(byte, byte)
        key.append(byte)
        index += 1
    return bytes(key)


def parse_line(line: bytes, *, quoted: bool | None = None, source: str = "<line>", offset: int = 0) -> bytes:
    """Return the key of one line without line end; *quoted* None detects quotes."""
    if quoted is None:
        quoted = is_quoted(line)
    return unquote(line, source=source, offset=offset) if quoted else line
