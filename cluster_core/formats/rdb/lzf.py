"""LZF, the compression of strings in an RDB file (M. Lehmann's liblzf, as both servers bundle it).

A control byte below 32 announces that many literal bytes plus one; any other is a reference: its top three bits
(and, if all are set, one more byte) give a length, the rest with the next byte a distance back.
"""

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
