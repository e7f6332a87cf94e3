"""Checks the options of ``key-slots`` before Spark starts, and makes the options of its tasks."""

from __future__ import annotations

from cluster_core.load.key_use import LfuSettings
from cluster_core.memory.layouts import LAYOUT_NAMES
from cluster_core.memory.model import MemorySettings
from cluster_core.memory.structures import ALLOCATORS
from cluster_core.topology.node import Topology
from slotscope.pipelines.keys.options import KeyOptions, dump_options
from slotscope.runtime.errors import InputError
from slotscope.runtime.stores import is_live
from slotscope.servers.dump_link import check_lives
from slotscope.sources.inputs import find_inputs, load_topology
from slotscope.sources.keys.lists import KeyListOptions
from slotscope.sources.keys.partial_rows import TallyOptions

TOP_MAX = 100_000
LFU_SETTING_MAX = 65_535
"""A larger ``lfu-decay-time`` is longer than the 16 bits of minutes that a server keeps."""


def check_request(request: KeyOptions) -> None:
    """Refuse options that cannot work, missing files and damaged topologies before Spark starts."""
    find_inputs(list(request.rdb), list(request.keys), request.key_format, request.aof)
    if request.allocator != "auto" and request.allocator not in ALLOCATORS:
        raise InputError(f"--allocator {request.allocator}: must be auto, {', '.join(ALLOCATORS)}")
    if request.server is not None and request.server not in LAYOUT_NAMES:
        raise InputError(f"--server {request.server}: must be one of {', '.join(LAYOUT_NAMES)}")
    for name in ("lfu_log_factor", "lfu_decay_time"):
        if not 0 <= getattr(request, name) <= LFU_SETTING_MAX:
            raise InputError(
                f"--{name.replace('_', '-')} {getattr(request, name)}: must be from 0 to {LFU_SETTING_MAX}"
            )
    if not 1 <= request.top <= TOP_MAX:
        raise InputError(f"--top {request.top}: must be from 1 to {TOP_MAX}")
    if not request.separators:
        raise InputError("--separators: must not be empty")
    if request.keep_keys and not request.rdb:
        raise InputError("--keep-keys needs --rdb: it keeps the keys of dumps")
    if request.keep_keys and any(map(is_live, request.rdb)):
        raise InputError("--keep-keys reads dumps twice: save the dumps of live servers to files first")
    check_lives(request.rdb, dump_options(request))
    load_topology(request.topology)
    if request.snapshot == "":
        raise InputError("--snapshot: must not be empty")


def tally_options(request: KeyOptions, topology: Topology | None, *, advice: bool = False) -> TallyOptions:
    """Return the options of the tasks of *request*; with *advice* they measure values, too."""
    return TallyOptions(
        permissive=request.permissive,
        top=request.top,
        separators=request.separators.encode(),
        topology=topology,
        advice=advice,
        lists=KeyListOptions(request.key_column, request.size_column, request.ops_column, request.quoted),
        memory=memory_settings(request, in_cluster=topology is not None),
        lfu=LfuSettings(request.lfu_log_factor, request.lfu_decay_time),
        live=dump_options(request) if any(map(is_live, request.rdb)) else None,
    )


def memory_settings(request: KeyOptions, *, in_cluster: bool) -> MemorySettings:
    """Return the settings of the memory model."""
    return MemorySettings(request.allocator, in_cluster, request.loaded, request.server or "")
