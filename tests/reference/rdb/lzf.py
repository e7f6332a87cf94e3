"""LZF followed without expanding it, and expanded in part: what the plain skim does with compressed strings; and an expansion of its own."""

from __future__ import annotations


def expand(data: bytes, size: int) -> bytes:
    """Return the *size* bytes that *data* stands for; ValueError if it stands for anything else.

    Never holds more than *size* bytes and one run (264).
    """
    out = bytearray()
    at, stop = 0, len(data)
    try:
        while at < stop:
            control = data[at]
            at += 1
            if control < 32:
                run = control + 1
                if at + run > stop:
                    raise ValueError("literal bytes run past the end")
                out += data[at : at + run]
                at += run
            else:
                run = control >> 5
                if run == 7:
                    run += data[at]
                    at += 1
                copy_back(out, ((control & 31) << 8 | data[at]) + 1, run + 2)
                at += 1
            if len(out) > size:
                raise ValueError("more bytes than claimed")
    except IndexError:
        raise ValueError("a reference runs past the end") from None
    if len(out) != size:
        raise ValueError("fewer bytes than claimed")
    return bytes(out)


def copy_back(out: bytearray, distance: int, count: int) -> None:
    """Append *count* bytes from *distance* bytes before the end; ValueError if that lies before the first byte."""
    start = len(out) - distance
    if start < 0:
        raise ValueError("a reference points before the first byte")
    if distance >= count:
        out += out[start : start + count]
    else:  # the run repeats itself
        piece = bytes(out[start:])
        out += (piece * (count // distance + 1))[:count]


def expand_head(data: bytes, size: int) -> bytes:
    """Return the first *size* bytes that *data* begins to stand for; ValueError if they are not there."""
    out = bytearray()
    at = 0
    try:
        while len(out) < size:
            control = data[at]
            at += 1
            if control < 32:
                take = min(control + 1, size - len(out))
                out += data[at : at + take]
                if at + take > len(data):
                    raise ValueError("literal bytes run past the end")
                at += control + 1
            else:
                run = control >> 5
                if run == 7:
                    run += data[at]
                    at += 1
                copy_back(out, ((control & 31) << 8 | data[at]) + 1, run + 2)
                at += 1
    except IndexError:
        raise ValueError("the data ends too early") from None
    return bytes(out[:size])


def is_whole(data: bytes, at: int, stop: int, size: int) -> bool:
    """Whether ``data[at:stop]`` stands for exactly *size* bytes; follows the control bytes, expands nothing."""
    made = 0
    try:
        while at < stop:
            control = data[at]
            if control < 32:
                at += control + 2
                made += control + 1
                continue
            run = control >> 5
            at += 1
            if run == 7:
                run += data[at]
                at += 1
            if at >= stop or (control & 31) << 8 | data[at] >= made:
                return False
            made += run + 2
            at += 1
    except IndexError:
        return False
    return at == stop and made == size


class Check:
    """Follows compressed data piece by piece, expanding nothing: do *left* bytes stand for exactly *size* bytes?"""

    def __init__(self, left: int, size: int) -> None:
        self.left = left
        self._size = size
        self._made = 0
        self._literals = 0

    def go(self, data: bytes, at: int) -> int:
        """Follow *data* from *at* and return where to go on; `left` is 0 at the end.  Raises ValueError for a lie."""
        stop, left, made, literals = len(data), self.left, self._made, self._literals
        while left:
            if literals:
                take = min(literals, stop - at)
                at, left, literals = at + take, left - take, literals - take
                if literals:
                    break
                continue
            if at >= stop:
                break
            control = data[at]
            if control < 32:
                literals = control + 1
                if literals + 1 > left:
                    raise ValueError("literal bytes run past the end")
                at, left, made = at + 1, left - 1, made + literals
                continue
            run = control >> 5
            size = 3 if run == 7 else 2
            if size > left:
                raise ValueError("a reference runs past the end")
            if at + size > stop:
                break
            if (control & 31) << 8 | data[at + size - 1] >= made:
                raise ValueError("a reference points before the first byte")
            made += run + 2 + (data[at + 1] if run == 7 else 0)
            at, left = at + size, left - size
        if not left and made != self._size:
            raise ValueError("not as many bytes as claimed")
        self.left, self._made, self._literals = left, made, literals
        return at
