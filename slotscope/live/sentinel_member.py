"""One sentinel of the core, alive: carries out its effects with sockets and a clock, and tells it what happens.

Everything that is decided is decided by `cluster_core.sentinel.machine.Sentinel`; this is its driver (docs/design/sentinel.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import ClassVar, Final

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import Flag
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import SentinelSettings, Watched
from slotscope.live.connections import RespLink
from slotscope.live.driver import Driver, Place, Serve, Tell


class SentinelMember(Driver[RespLink]):
    """A sentinel and its sockets; `start`, then let the loop run, then `stop`."""

    def __init__(self, settings: SentinelSettings, bind: str, watched: Watched, tell: Tell) -> None:
        super().__init__(Place(bind), tell, settings.dialect)
        self.settings = settings
        self.sentinel = Sentinel(settings, SystemRandom(), self.now_ms(), watched)

    @property
    def machine(self) -> Sentinel:
        """The sentinel."""
        return self.sentinel

    def _doors(self) -> list[tuple[int, Serve]]:
        return [(self.settings.port, self.serve_client)]

    def _on_tick(self) -> float:
        self.tell(TICK)
        return self.sentinel.tick_ms / 1000

    def _command(self, client: int, words: tuple[bytes, ...], ip: str = "") -> ev.ClientCommand:
        return ev.ClientCommand(client, words)

    def _client_closed(self, client: int) -> ev.ClientClosed:
        return ev.ClientClosed(client)

    def _link_closed(self, link: int) -> ev.LinkClosed:
        return ev.LinkClosed(link)

    def leads(self) -> bool:
        """Whether a failover that we conduct is under way."""
        masters = self.sentinel.state.masters.values()
        return any(master.flags & Flag.FAILOVER_IN_PROGRESS and master.promoted is not None for master in masters)

    # -- events --------------------------------------------------------------------------------------------------

    def _said(self, number: int, words: tuple[bytes, ...], ip: str) -> None:
        super()._said(number, words, ip)
        client = self._clients.get(number)
        if client is not None and words[0].lower() == b"quit":
            client.close()

    # -- effects -------------------------------------------------------------------------------------------------

    def _open(self, effect: ev.OpenLink) -> None:
        link = self._links[effect.link] = RespLink(
            effect.link,
            opened=lambda number, local_ip: self.tell(ev.LinkOpened(number, local_ip)),
            heard=lambda number, value: self.tell(ev.Answered(number, value)),
            lost=self._lose,
        )
        self._run(link, link.run(effect.ip, effect.port))

    def _send(self, effect: ev.SendCommand) -> None:
        link = self._links.get(effect.link)
        if link is not None:
            link.send(effect.words)

    def _reply(self, effect: ev.Reply) -> None:
        client = self._clients.get(effect.client)
        if client is not None:
            client.protocol = self.sentinel.protocol_of(effect.client)
        super()._reply(effect)

    handlers: ClassVar[Mapping[type, Callable[..., None]]] = {
        ev.OpenLink: _open,
        ev.CloseLink: Driver._close,
        ev.SendCommand: _send,
        ev.Reply: _reply,
        ev.LogLine: Driver._log,
    }


TICK: Final = ev.Tick()
