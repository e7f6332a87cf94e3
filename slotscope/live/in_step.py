"""Keeps a member in step with its cluster: asks a node for its version and its node timeout, and looks at what the others send."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster_core.gossip.profile import Profile
from cluster_core.gossip.profile_signs import profile_of_version
from cluster_core.wire.resp import RespError, read_info
from slotscope.runtime.failure import printable
from slotscope.servers.node_link import Access, Address, LinkError, NodeLink

if TYPE_CHECKING:
    from slotscope.live.driver import Tell
    from slotscope.live.member import Member

LOOK_S: Final = 2.0
"""How often the traffic is looked at."""
ASK_AGAIN_S: Final = 60.0
"""How often a node that answered is asked again: somebody may have changed its configuration."""
DIFFERS: Final = 0.2
"""An estimate of the node timeout that is so much off is another node timeout."""
TIMEOUT_MS_MAX: Final = 86_400_000
COMPLAINTS_MAX: Final = 100


class Ways(NamedTuple):
    """What a node says of itself; None for what it does not tell, *refused* says why."""

    profile: Profile | None
    node_timeout_ms: int | None
    refused: str = ""


def ask_ways(node: Address, access: Access) -> Ways:
    """Ask *node* with INFO and CONFIG GET, and nothing else; it never raises, a node that does not answer tells nothing."""
    try:
        link = access.connect(node)
    except LinkError as error:
        return Ways(None, None, f"{node}: {error}")
    try:
        info, no_info = _asked(link, "INFO", "server")
        pairs, no_config = _asked(link, "CONFIG", "GET", "cluster-node-timeout")
    finally:
        link.close()
    value = pairs[1] if isinstance(pairs, list) and len(pairs) == 2 else b""
    timeout_ms = int(value) if isinstance(value, bytes) and value.isdigit() and len(value) < 10 else 0
    refused = "; ".join(f"{node}: {why}" for why in (no_info, no_config) if why)
    return Ways(profile_told(info), timeout_ms if 0 < timeout_ms <= TIMEOUT_MS_MAX else None, refused)


def _asked(link: NodeLink, *words: str) -> tuple[object, str]:
    try:
        (reply,) = link.ask([words])
    except LinkError as error:
        return None, f"{words[0]}: {error}"
    return (None, f"{words[0]}: {reply.text}") if isinstance(reply, RespError) else (reply, "")


def profile_told(info: object) -> Profile | None:
    """The profile of a server by its INFO; None for one that is not known."""
    fields = read_info(info) if isinstance(info, bytes) else {}
    products = ("valkey", "redis")  # Valkey tells a Redis version, too
    told = next((name for name in products if f"{name}_version" in fields), "")
    return profile_of_version(told, fields[f"{told}_version"]) if told else None


@dataclass(slots=True)
class Step:
    """Keeps *member* in step: what was given by hand (not None) stays and a difference is told, all else is taken over."""

    member: Member
    access: Access
    tell: Tell
    profile: Profile | None = None
    node_timeout_ms: int | None = None
    asked_s: float = -ASK_AGAIN_S
    turn: int = 0
    told_profile: bool = False
    told_timeout: bool = False
    told_nothing: bool = False
    complaints: set[str] = field(default_factory=set)

    def take(self, ways: Ways, source: str) -> None:
        """Take over what *source* tells, or say how it differs from what was given."""
        settings = self.member.settings
        profile, timeout_ms = settings.profile, settings.node_timeout_ms
        if ways.profile is not None and ways.profile is not profile:
            if self.profile is None:
                profile = ways.profile
                self.tell(f"* {source}: rules of {profile.name} from now on, not {settings.profile.name}")
            else:
                self._complain(
                    f"# {source}: the cluster follows the rules of {ways.profile.name}, this node those of {profile.name}"
                    " (--profile): verdicts, votes and slots may differ"
                )
        if ways.node_timeout_ms is not None and ways.node_timeout_ms != timeout_ms:
            if self.node_timeout_ms is None:
                timeout_ms = ways.node_timeout_ms
                self.tell(f"* {source}: node timeout {timeout_ms} ms from now on, not {settings.node_timeout_ms} ms")
            else:
                self._complain(
                    f"# {source}: cluster-node-timeout is {ways.node_timeout_ms} ms there and {timeout_ms} ms here"
                    " (--node-timeout): with slots, this node holds failovers up or starts them too early"
                )
        if (profile, timeout_ms) != (settings.profile, settings.node_timeout_ms):
            self.member.follow(profile, timeout_ms)

    def _complain(self, text: str) -> None:
        if text not in self.complaints and len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.add(text)
            self.tell(text)

    async def ask(self, node: Address) -> None:
        """Ask *node* and take over what it says."""
        self.asked_s = time.monotonic()
        ways = await asyncio.to_thread(ask_ways, node, self.access)
        self.take(ways, str(node))
        self.told_profile = self.told_profile or ways.profile is not None
        self.told_timeout = self.told_timeout or ways.node_timeout_ms is not None
        if ways.refused and not self.told_nothing:
            self.told_nothing = True
            self.tell(f"# not told how the cluster is configured, so its traffic must do: {printable(ways.refused)}")

    def look(self) -> None:
        """Take over what the traffic tells and nobody has told."""
        company, settings = self.member.company, self.member.settings
        profile = None if self.told_profile else company.profile(settings.profile)
        timeout_ms = None if self.told_timeout else company.node_timeout_ms()
        if timeout_ms is not None and abs(timeout_ms - settings.node_timeout_ms) <= DIFFERS * settings.node_timeout_ms:
            timeout_ms = None
        self.take(Ways(profile, timeout_ms), "by the messages of the others")

    async def run(self) -> None:
        """Look now and then, and ask again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()
            known = self.member.known_addresses()
            wait_s = ASK_AGAIN_S if self.told_timeout else 5 * LOOK_S
            if known and time.monotonic() - self.asked_s >= wait_s:
                self.turn += 1
                await self.ask(known[self.turn % len(known)])
