"""Inputs of a key-distribution job: files and topology, checked on the driver before any task starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from cluster_core.errors import DecodeError
from cluster_core.topology.node import Topology
from cluster_core.topology.replies import read_topology
from slotscope.runtime import text
from slotscope.runtime.errors import InputError
from slotscope.sources.aof import files as aof_files
from slotscope.sources.aof.files import AofLog, find_logs
from slotscope.sources.aof.tally import AofStateUnit
from slotscope.sources.files import GZIP_MAGIC, ZSTD_MAGIC, InputFile, exists, expand, open_raw
from slotscope.sources.folder_kinds import DUMPS, KEY_LISTS
from slotscope.sources.keys import lists as key_lists
from slotscope.sources.keys.tally import Unit
from slotscope.sources.node_polls import newest_topology
from slotscope.sources.rdb import files as rdb_files

TOPOLOGY_BYTES_MAX = 64 << 20
POLLS_BEGIN = (b"{", GZIP_MAGIC, ZSTD_MAGIC)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Files by how they are read."""

    rdb: list[InputFile]
    keys: list[InputFile]
    key_format: str | None = None
    logs: tuple[AofLog, ...] = ()
    replays: bool = True
    older: Mapping[str, str] = field(default_factory=dict)
    """Dumps that are not read, each with the newest dump of the same data."""

    @property
    def summary(self) -> str:
        """How many files there are, and their bytes."""
        files = self._files
        return f"{text.plural(len(files), 'file')}, {text.size(sum(file.size for file in files))}"

    @property
    def file_bytes(self) -> int | None:
        """The bytes of all files as stored; None where one does not say, as a pipe does not."""
        sizes = [file.size for file in self._files]
        return sum(sizes) if all(sizes) else None

    @property
    def _files(self) -> list[InputFile]:
        return [*self.rdb, *self.keys, *(file for log in self.logs for file in log.files)]

    def units(self, parallelism: int, *, split: bool) -> list[Unit]:
        """Return the units of work of all files, largest first."""
        units: list[Unit] = [AofStateUnit(log) for log in self.logs] if self.replays else []
        units += aof_files.plan_units(list(self.logs))
        units += rdb_files.plan_tasks(self.rdb, parallelism=parallelism, split=split)
        return [*units, *key_lists.plan_tasks(self.keys, self.key_format, parallelism)]

    def newest(self) -> Inputs:
        """Return the inputs without older dumps of a data set."""
        rdb, older = rdb_files.newest_dumps(self.rdb)
        return replace(self, rdb=rdb, older=older)

    def only(self, sources: Collection[str]) -> Inputs:
        """The dumps and logs that *sources* name."""
        dumps = [file for file in self.rdb if file.path in sources]
        return replace(self, rdb=dumps, keys=[], logs=tuple(log for log in self.logs if log.path in sources))


def find_inputs(
    rdb: list[str], keys: list[str], key_format: str | None, aof: Sequence[str] = (), *, replay: bool = True
) -> Inputs:
    """Expand the paths of the user; raises DecodeError for missing files, InputError for no input or an unknown format."""
    if not rdb and not keys and not aof:
        raise InputError("nothing to read: name dumps with --rdb, logs with --aof or key lists with --keys")
    if key_format is not None and key_format not in key_lists.KINDS:
        raise InputError(f"unknown key list format {key_format!r}: use {', '.join(key_lists.KINDS)}")
    for path in keys:
        if exists(f"{path.rstrip('/')}/_delta_log/*.json"):
            raise InputError(f"{path}: a Delta table is not a key list: write its rows to Parquet files first")
    return Inputs(
        expand(list(rdb), DUMPS), expand(list(keys), KEY_LISTS), key_format, tuple(find_logs(list(aof))), replay
    )


def load_topology(path: str | None) -> Topology | None:
    """Read a CLUSTER NODES, nodes.conf, SHARDS or SLOTS file, or the newest of polls; raises DecodeError, also for overlapping slots."""
    if path is None:
        return None
    files = expand([path])
    if len(files) != 1:
        raise InputError(f"{path}: {len(files)} files; a topology is one file")
    (file,) = files
    if file.size > TOPOLOGY_BYTES_MAX:
        raise DecodeError(f"{file.size} bytes are too many for a topology", offset=0, source=path)
    with open_raw(path) as raw:
        data = raw.read(TOPOLOGY_BYTES_MAX)
    try:
        return read_topology(data, source=path)
    except DecodeError:
        with suppress(DecodeError):
            if data.startswith(POLLS_BEGIN) and (polled := newest_topology([path])) is not None:
                return polled
        raise
