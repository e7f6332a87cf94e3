"""What ``appendfsync`` means for a log: the window of writes that a crash of the machine may lose (`flushAppendOnlyFile`)."""

from __future__ import annotations

from typing import Final, NamedTuple

WINDOWS_S: Final[dict[str, tuple[int, int]]] = {"always": (0, 0), "everysec": (1, 2), "no": (30, 30)}
"""By policy: the usual window and the longest, in seconds.

``always``: replies wait for fsync, so nothing answered is lost.  ``everysec``: a thread calls fsync each second; while one is
under way a write may wait up to two seconds.  ``no``: the kernel decides, on Linux 30 s by default (vm.dirty_expire_centisecs).
A crash of the server alone loses nothing under any of them: what it wrote is the kernel's.
"""


class LogRate(NamedTuple):
    """Bytes a second that are appended: on average, and in the busiest second."""

    mean_bytes: float
    peak_bytes: int


def describe_loss(policy: str | None, rate: LogRate | None) -> str:
    """Say in one sentence what a crash of the machine may lose; for all policies if *policy* is None."""
    policies = [policy] if policy is not None else list(WINDOWS_S)
    return "a crash of the machine may lose, with appendfsync " + "; ".join(_window(name, rate) for name in policies)


def _window(policy: str, rate: LogRate | None) -> str:
    usual, longest = WINDOWS_S[policy]
    if not longest:
        return f"{policy}: nothing that was answered"
    span = f"{usual} s of writes" if usual == longest else f"{usual} s of writes (at worst {longest} s)"
    if policy == "no":
        span = f"about {span}"
    if rate is None:
        return f"{policy}: {span}"
    return f"{policy}: {span}, {int(usual * rate.mean_bytes):,} bytes at the log's mean rate, {longest * rate.peak_bytes:,} at its peak"
