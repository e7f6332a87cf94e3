"""Records what keys take in the memory of real servers: ``python -m tests.data.record_memory``.

Writes ``memory/SERVER-VERSION.rdb.xz`` and, beside it, ``.tsv.xz``: a line a key, name in base64 and the reply to MEMORY USAGE
with SAMPLES 0.
"""

from __future__ import annotations

import base64
import lzma
import sys

from tests.benches.servers import redis_binary, running, valkey_binary
from tests.builders.memory_truth import fill
from tests.data.record import HERE


def main() -> int:
    """Record with every server that is installed."""
    folder = HERE / "memory"
    folder.mkdir(exist_ok=True)
    for name, binary in (("redis-7.0", redis_binary()), ("valkey-9.1", valkey_binary())):
        if binary is None:
            sys.stderr.write(f"not recorded: {name} is not installed\n")
            continue
        with running(binary, save="") as server:
            dump, truth = fill(server, fields_expire=name.startswith("valkey"))
        lines = b"".join(base64.b64encode(key) + b"\t%d\n" % size for key, size in sorted(truth.items()))
        (folder / f"{name}.rdb.xz").write_bytes(lzma.compress(dump))
        (folder / f"{name}.tsv.xz").write_bytes(lzma.compress(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
