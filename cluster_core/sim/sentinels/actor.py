"""A sentinel as a process of a `World`: its events and effects in the forms that the world's driver knows.

A connection that the sentinel numbers n is link 2 n of the world; links that others open are odd, and are clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip import events as belief
from cluster_core.node import events as node
from cluster_core.sentinel import events as ev
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sim.sentinels.messages import RespMessage

if TYPE_CHECKING:
    from cluster_core.sim.host import Host

TICK: Final = ev.Tick()
TICKED: Final = belief.Tick()


class ActorView:
    """What the world and its parts look up in the view of a node: an id, and that nobody pauses for a failover."""

    __slots__ = ("id", "mf_end_ms", "myself", "nodes")

    def __init__(self, actor_id: str) -> None:
        self.id, self.myself, self.mf_end_ms = actor_id, self, 0
        self.nodes: dict[str, Any] = {}


class Actor:
    """The part of a node's contract that the world uses, in the forms in which it uses it."""

    def handle(self, event: Any, now_ms: int) -> list[Any]:
        """Take an event of the world and return effects for its driver."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> list[Any]:
        """The timer."""
        return self.handle(TICKED, now_ms)

    def receive(self, link: int, message: Any, peer_ip: str, now_ms: int) -> list[Any]:
        """A message came in on a link."""
        return self.handle(belief.MessageReceived(link, message, peer_ip), now_ms)


class SentinelActor(Actor):
    """A `Sentinel` in the place of `Host.node`."""

    def __init__(self, host: Host, sentinel: Sentinel) -> None:
        self.host, self.sentinel = host, sentinel
        self.view = ActorView(sentinel.my_id)

    @property
    def tick_us(self) -> int:
        """When the next timer comes."""
        return self.sentinel.tick_ms * 1000

    def config_text(self) -> str:
        """Its sentinel.conf."""
        return self.sentinel.config_text()

    def handle(self, event: Any, now_ms: int) -> list[Any]:
        """Hand an event of the world to the sentinel, and its effects to the world; nothing follows the end of the process."""
        told = self._told(event)
        if told is None:
            return []
        effects: list[Any] = []
        for effect in self.sentinel.handle(told, now_ms):
            effects.append(_wanted(effect))
            if type(effect) is ev.Exit:
                break
        return effects

    def _told(self, event: Any) -> ev.Event | None:
        kind = type(event)
        if kind is belief.Tick:
            return TICK
        if kind is belief.MessageReceived:
            message: Any = event.message
            if event.link % 2:
                return ev.ClientCommand(event.link, message.words)
            return ev.Answered(event.link // 2, message.value)
        if kind is node.LinkOpened:
            return ev.LinkOpened(event.link // 2, self.host.ip)
        if kind is belief.LinkClosed:
            return ev.ClientClosed(event.link) if event.link % 2 else ev.LinkClosed(event.link // 2)
        if kind is node.ClientCommand:
            return ev.ClientCommand(event.client, event.words)
        return None


def _wanted(effect: ev.Effect) -> Any:
    """The effect of the world's driver that *effect* means; others are for observers."""
    match effect:
        case ev.SendCommand():
            return node.SendMessage(effect.link * 2, RespMessage(list(effect.words)))  # type: ignore[arg-type]
        case ev.OpenLink():
            return node.OpenLink(effect.link * 2, "", effect.ip, effect.port)
        case ev.CloseLink():
            return belief.CloseLink(effect.link * 2)
        case ev.Reply() if effect.client % 2:
            return node.SendMessage(effect.client, RespMessage(effect.value))  # type: ignore[arg-type]
        case ev.Reply():
            return node.Reply(effect.client, effect.value)
        case ev.SaveConfig():
            return node.SaveConfig(fsync=True)
        case ev.LogLine():
            return node.LogLine(effect.level, effect.text)
    return effect
