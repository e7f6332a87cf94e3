"""Finished files of a point brought to an object store; until they are there they wait in the point's folder, the spool."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster_core.formats.landing import GAPS_FILE
from slotscope.recording.point import Point
from slotscope.runtime import stores
from slotscope.runtime.text import plural

TURN_S: Final = 1.0
RETRY_S: Final = (1.0, 60.0)
"""A store that does not take a file is tried again after so long, doubled each time up to so much."""
FINISH_S: Final = 60.0
"""At the end files are brought for so long; what waits then is brought by the next recorder of this spool."""


class Uploader:
    """Brings what *point* has finished to the folder *target* of a store, in a thread of its own, until `close`.

    A file is deleted from the spool when the store has all of it.  A store that is away is told once, and once that it is back.
    """

    def __init__(self, point: Point, target: str) -> None:
        self.files = 0
        """Brought so far."""
        self._point, self._target = point, target.rstrip("/")
        self._stop = threading.Event()
        self._failed = 0
        self._gaps_ns = 0
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Bring what is left, for a while; what stays is said."""
        self._stop.set()
        self._thread.join()
        end_s = time.monotonic() + FINISH_S
        while not self._bring_all() and time.monotonic() < end_s:
            time.sleep(min(RETRY_S[0], max(0.0, end_s - time.monotonic())))
        waiting = len(self._finished())
        if waiting:
            self._point.tell(
                f"{plural(waiting, 'file')} could not be brought to {self._target}: start again with the same words"
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            wait_s = TURN_S if self._bring_all() else min(RETRY_S[0] * 2.0 ** min(self._failed, 16), RETRY_S[1])
            self._stop.wait(wait_s)

    def _bring_all(self) -> bool:
        """Bring every finished file, the oldest first, then what is said of gaps; whether the store took all of it."""
        try:
            for path in self._finished():
                self._point.bringing = str(path)
                with suppress(FileNotFoundError):  # gone for want of room
                    self._bring(path.read_bytes(), f"{path.parent.name}/{path.name}")
                    path.unlink()
                    self.files += 1
            self._bring_gaps()
        except (OSError, ValueError) as error:
            if not self._failed:
                waiting = plural(len(self._finished()), "file")
                self._point.tell(f"{self._target}: {stores.reason(error)}; {waiting} wait in {self._point.folder}")
            self._failed += 1
            return False
        finally:
            self._point.bringing = ""
        if self._failed:
            self._point.tell(f"{self._target}: it takes files again")
        self._failed = 0
        return True

    def _finished(self) -> list[Path]:
        files = [(file.to_ns, file.path) for file in self._point.stored() if file.to_ns is not None]
        return [Path(path) for _, path in sorted(files)]

    def _bring_gaps(self) -> None:
        path = self._point.folder / GAPS_FILE
        with suppress(FileNotFoundError):
            changed_ns = path.stat().st_mtime_ns
            if changed_ns != self._gaps_ns:
                self._bring(path.read_bytes(), GAPS_FILE)
                self._gaps_ns = changed_ns

    def _bring(self, data: bytes, name: str) -> None:
        """An object is there as a whole, or not at all; raises OSError where the store has not all of it afterwards."""
        stores.write_object(f"{self._target}/{name}", data)
        system, inside = stores.file_system(f"{self._target}/{name}")
        size = system.get_file_info(inside).size
        if size != len(data):
            raise OSError(f"{name}: the store has {size} of {len(data)} bytes")
