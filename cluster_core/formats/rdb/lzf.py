"""LZF, the compression of strings in an RDB file (M. Lehmann's liblzf, as both servers bundle it).

A control byte below 32 announces that many literal bytes plus one; any other is a reference: its top three bits
(and, if all are set, one more byte) give a length, the rest with the next byte a distance back.
"""

from __future__ import annotations


def expand_into(data: bytes, at: int, stop: int, out: bytearray, start: int, size: int) -> bool:
    """Expand ``data[at:stop]`` to ``out[start:start + size]``; False if it does not give exactly *size* bytes.

    `cluster_core.kernels.rdb.strings` compiles this for arrays of bytes.
    """
    put = start
    last = start + size
    while at < stop:
        control = data[at] + 0
        at += 1
        if control < 32:
            run = control + 1
            if at + run > stop or put + run > last:
                return False
            copy_run(out, put, data, at, run)
            at += run
        else:
            run = control >> 5
            if run == 7:
                if at >= stop:
                    return False
                run += data[at]
                at += 1
            if at >= stop:
                return False
            back = put - ((control & 31) << 8) - data[at] - 1
            at += 1
            run += 2
            if back < start or put + run > last:
                return False
            repeat_run(out, put, back, run)
        put += run
    return put == last


def copy_run(out: bytearray, put: int, data: bytes, at: int, run: int) -> None:
    """Copy *run* bytes of *data* from *at* on to *out* from *put* on."""
    out[put : put + run] = data[at : at + run]


def repeat_run(out: bytearray, put: int, back: int, run: int) -> None:
    """Write *run* bytes from *put* on, each the one as far before it as *back* is before *put*."""
    piece = out[back : min(put, back + run)]
    out[put : put + run] = piece if len(piece) == run else (piece * (run // len(piece) + 1))[:run]


def expand(data: bytes, size: int) -> bytes:
    """Return the *size* bytes that *data* stands for; ValueError if it stands for anything else."""
    out = bytearray(size)
    if not expand_into(data, 0, len(data), out, 0, size):
        raise ValueError(f"not {size} bytes, compressed")
    return bytes(out)
