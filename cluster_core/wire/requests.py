r"""Requests as arrays of bulk strings (``*2\r\n$3\r\nGET\r\n$1\r\na\r\n``), in client traffic, logs and replication."""

from __future__ import annotations

CUT, START, COUNT, BULK, LENGTH, LENGTH_MAX, CRLF = range(1, 8)
"""Why there is no request: truncated, or a kind of damage."""
ARGUMENTS_MAX = (1 << 31) - 1
"""Maximum arguments of one request (the server's counter)."""
ARGUMENT_BYTES_MAX = 1 << 40
NUMBER_DIGITS_MAX = 13

Buffer = bytes | bytearray


def read_number(data: Buffer, at: int, stop: int) -> tuple[int, int]:
    """Return the number at *at* and the position after its CRLF, or minus `CUT` or `LENGTH` and a position."""
    value = 0
    begin = at
    while at < stop:
        byte = data[at]
        if byte < 48 or byte > 57:
            break
        if at - begin >= NUMBER_DIGITS_MAX:
            return -LENGTH, begin
        value = value * 10 + (byte - 48)
        at += 1
    if at < stop and (at == begin or data[at] != 13):
        return -LENGTH, begin
    if at + 1 >= stop:
        return -CUT, begin
    if data[at + 1] != 10:
        return -LENGTH, begin
    return value, at + 2


def read_count(data: Buffer, at: int, stop: int) -> tuple[int, int]:
    """Return the argument count of the request at *at* and the first position after it, or a negated error and its position."""
    if at >= stop:
        return -CUT, at
    if data[at] != 42:
        return -START, at
    count, after = read_number(data, at + 1, stop)
    if count == -CUT:
        return count, after
    if count < 1 or count > ARGUMENTS_MAX:
        return -COUNT, at + 1
    return count, after


def read_argument(data: Buffer, at: int, stop: int) -> tuple[int, int]:
    """Return the length and start of the argument with its ``$`` at *at*, or a negated error and its position.

    The argument and its CRLF may extend beyond *stop*.
    """
    if at >= stop:
        return -CUT, at
    if data[at] != 36:
        return -BULK, at
    length, first = read_number(data, at + 1, stop)
    if length < 0:
        return length, first
    if length > ARGUMENT_BYTES_MAX:
        return -LENGTH_MAX, at + 1
    end = first + length
    if end + 2 <= stop and (data[end] != 13 or data[end + 1] != 10):
        return -CRLF, end
    return length, first


def find_end(data: Buffer, at: int, stop: int, count: int) -> int:
    """Return the position after *count* arguments, or a negated error."""
    for _ in range(count):
        length, first = read_argument(data, at, stop)
        if length < 0:
            return length
        at = first + length + 2
        if at > stop:
            return -CUT
    return at
