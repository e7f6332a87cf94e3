"""When slots may begin to move: a daily maintenance window in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo

from slotscope.runtime.errors import InputError
from slotscope.sources.server_logs import zone_of

MINUTES_A_DAY = 24 * 60
_WINDOW = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """From *opens* to *closes* every day, over midnight where it closes before it opens."""

    opens: time
    closes: time
    zone: tzinfo

    @property
    def length_s(self) -> float:
        """Seconds that it is open, on a day on which no clock is changed."""
        minutes = [at.hour * 60 + at.minute for at in (self.opens, self.closes)]
        return (minutes[1] - minutes[0]) % MINUTES_A_DAY * 60.0

    def left_s(self, now: datetime) -> float:
        """Seconds until it closes; 0 where it is closed at *now*."""
        for start, end in self._around(now):
            if start <= now < end:
                return end.timestamp() - now.timestamp()
        return 0.0

    def next_opening(self, now: datetime) -> datetime:
        """When it opens next, in its zone."""
        return next(start for start, _ in self._around(now) if start > now)

    def _around(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """The windows that begin the day before, today, and on the two days after: clocks that are put forward may take one away."""
        found = []
        for days in (-1, 0, 1, 2):
            day = now.astimezone(self.zone).date() + timedelta(days=days)
            last = day if self.closes > self.opens else day + timedelta(days=1)
            found.append((datetime.combine(day, self.opens, self.zone), datetime.combine(last, self.closes, self.zone)))
        return found


def read_window(words: str, zone: str) -> MaintenanceWindow:
    """Read ``01:00-05:00``; raises InputError for anything else, and for a zone that is not known."""
    match = _WINDOW.fullmatch(words.strip())
    if match is None or (match[1], match[2]) == (match[3], match[4]):
        raise InputError(f"--maintenance-window {words}: write it as 01:00-05:00")
    return MaintenanceWindow(time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4])), zone_of(zone))
