"""Upload the finished files of a point to an object store; until then they wait in the folder of the point, the spool."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster_core.formats.landing import GAPS_FILE
from slotscope.recording.point import Point
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import plural

STARTED: Final = ".started"
"""Name of the object that a recorder writes first; readers skip names with a dot."""
TURN_S: Final = 1.0
RETRY_S: Final = (1.0, 60.0)
"""First and longest wait before a retry; the wait doubles each time."""
FINISH_S: Final = 60.0
"""Longest upload at the end; the next recorder of this spool uploads the rest."""


class Uploader:
    """Uploads the finished files of *point* to the folder *target* of a store, in its own thread, until `close`.

    A file is deleted from the spool after its upload.  An unreachable store is reported once, and its return once.
    """

    def __init__(self, point: Point, target: str) -> None:
        self._point, self._target = point, target.rstrip("/")
        self._stop = threading.Event()
        self._failed = 0
        self._gaps_ns = 0
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def check(self) -> None:
        """Write a small object; raises InputError where the store refuses it."""
        try:
            stores.write_object(f"{self._target}/{STARTED}", b"1")
        except (OSError, ValueError) as error:
            raise InputError(f"{self._target}: cannot be written: {stores.reason(error)}") from error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Upload the rest for up to `FINISH_S`; report the files that remain."""
        self._stop.set()
        self._thread.join()
        end_s = time.monotonic() + FINISH_S
        while not self._upload_all() and time.monotonic() < end_s:
            time.sleep(min(RETRY_S[0], max(0.0, end_s - time.monotonic())))
        waiting = len(self._finished())
        if waiting:
            self._point.tell(
                f"{plural(waiting, 'file')} could not be uploaded to {self._target}: start the recorder again with the same options"
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            wait_s = TURN_S if self._upload_all() else min(RETRY_S[0] * 2.0 ** min(self._failed, 16), RETRY_S[1])
            self._stop.wait(wait_s)

    def _upload_all(self) -> bool:
        """Upload every finished file, the oldest first, then the file of gaps; whether the store accepted all."""
        try:
            for path in self._finished():
                self._point.bringing = str(path)
                with suppress(FileNotFoundError):  # deleted to keep the bounds of the spool
                    self._bring(path.read_bytes(), f"{path.parent.name}/{path.name}")
                    path.unlink()
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
        """Write one object atomically; raises OSError if the store then has another size."""
        stores.write_object(f"{self._target}/{name}", data)
        system, inside = stores.file_system(f"{self._target}/{name}")
        size = system.get_file_info(inside).size
        if size != len(data):
            raise OSError(f"{name}: the store has {size} of {len(data)} bytes")
