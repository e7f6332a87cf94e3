"""A live machine in the foreground of a terminal: what it says, how it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from pathlib import Path

from slotscope.live.driver import Place
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable


def say(line: str) -> None:
    """Write a line with the time to the error stream."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(line)}\n")


def place_at(bind: str, folder: str | None) -> Place:
    """Where the machine is to live; InputError for a folder that is none."""
    place = Path(folder) if folder is not None else None
    if place is not None and not place.is_dir():
        raise InputError(f"{folder}: no such folder")
    return Place(bind, place)


def numeric_address(host: str, named: str) -> str:
    """The address of *host*: machines know addresses, people write names; InputError says where it was *named*."""
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError as error:
        raise InputError(f"{named}: {error.strerror or error}") from error


def told_to_end() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    return told


async def any_of(seconds: float | None, *events: asyncio.Event) -> None:
    """Wait for one of *events*, or for the end of the time."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
