"""The files of a replay: found, refused before Spark starts, or known from a landing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cluster_core.formats.landing import Kind
from cluster_core.gossip.profile import PROFILES
from slotscope.runtime.errors import InputError
from slotscope.sources.bus.files import RecordedInput, find_captures, recorded_inputs
from slotscope.sources.files import InputFile, expand
from slotscope.sources.folder_kinds import METRICS, POLLS
from slotscope.sources.server_logs import find_logs, pairs_of, zone_of

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import HistoryOptions


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a replay."""

    captures: list[InputFile]
    polls: list[InputFile]
    logs: list[InputFile]
    recorded: tuple[RecordedInput, ...] = ()
    """The same files where all of them are finished files of one cluster in a landing."""
    log_node: tuple[str, ...] = ()
    """FILE=NODE pairs: owners of logs, named by the user."""
    metrics: list[InputFile] = field(default_factory=list)

    @classmethod
    def of_landing(cls, recorded: Sequence[RecordedInput], log_node: tuple[str, ...]) -> Inputs:
        """The files of one cluster in a landing."""
        named = {
            kind: [InputFile(file.path, file.size) for file in recorded if file.place.kind is kind] for kind in Kind
        }
        inputs = cls(named[Kind.BUS], named[Kind.POLLS], named[Kind.LOGS], tuple(recorded), metrics=named[Kind.METRICS])
        return replace(inputs, log_node=pairs_of(log_node, inputs.sizes()))

    @property
    def cluster(self) -> str | None:
        """The name of the cluster in its landing; None of files from elsewhere."""
        return self.recorded[0].place.cluster if self.recorded else None

    def sizes(self) -> dict[str, int]:
        """All files and their bytes."""
        return {file.path: file.size for file in (*self.captures, *self.polls, *self.logs, *self.metrics)}


def find_inputs(request: HistoryOptions) -> Inputs:
    """Expand the paths of the user; raises DecodeError for missing files."""
    inputs = Inputs(
        find_captures(request.pcap) if request.pcap else [],
        expand(list(request.polls), POLLS) if request.polls else [],
        find_logs(request.log, request.log_node) if request.log else [],
        metrics=_find_metrics(request),
    )
    inputs = replace(inputs, log_node=pairs_of(request.log_node, inputs.sizes()))
    recorded = recorded_inputs(inputs.sizes().items())
    is_landing = len(recorded) == len(inputs.sizes()) and len({file.place.cluster for file in recorded}) == 1
    return replace(inputs, recorded=tuple(recorded)) if is_landing and inputs.captures else inputs


def _find_metrics(request: HistoryOptions) -> list[InputFile]:
    """Return saved answers of Prometheus and newly fetched ones."""
    if not (request.prometheus or request.prometheus_url):
        return []
    from slotscope.sources.prometheus import check_range, fetch_metrics

    paths = list(request.prometheus)
    if request.prometheus_url:
        from_ns, to_ns = check_range(request.from_, request.to)
        folder = f"{request.root}/evidence"
        paths.append(fetch_metrics(request.prometheus_url, request.prometheus_match, from_ns, to_ns, folder))
    return expand(paths, METRICS)


def check_request(request: HistoryOptions) -> Inputs:
    """Check *request* and find its inputs before Spark starts; raises InputError and DecodeError."""
    if not (request.pcap or request.polls or request.log or request.prometheus or request.prometheus_url):
        raise InputError("nothing to read: name --log, --polls, --prometheus, --prometheus-url or --pcap")
    if request.snapshot == "":
        raise InputError("--snapshot: must not be empty")
    if request.profile is not None and request.profile not in PROFILES:
        raise InputError(f"--profile {request.profile}: must be one of {', '.join(PROFILES)}")
    if request.node_timeout_ms is not None and not 10 <= request.node_timeout_ms <= 86_400_000:
        raise InputError(f"--node-timeout-ms is {request.node_timeout_ms}; it must be from 10 to 86400000")
    zone_of(request.log_zone)
    return find_inputs(request)
