"""What the messages that reach a member tell of the others: whose rules they follow, and how long their node timeout is.

A node of another version, or with another node timeout, is taken for a member all the same (nothing on the bus says either), but
its verdicts come too late or too early for the others.  The pings that reach it tell about both.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from cluster_core.gossip.profile import Profile
from cluster_core.gossip.profile_signs import ProfileSigns
from cluster_core.gossip.view import NODES_MAX
from cluster_core.replay.node_timeout import timeout_of
from cluster_core.wire.bus import Header, Message, MessageType

PING: Final = int(MessageType.PING)
GAPS_MAX: Final = 400
"""So many of the last gaps between pings are kept, of all nodes together."""
MORE_THAN_CHANCE: Final = 1.6
"""Pings by chance are one a second and node (R31), spread over all others; where so many times more come, most are due ones."""


class Company:
    """Feed it every message of another node; it never raises, and what it keeps is bounded."""

    def __init__(self) -> None:
        self._signs: dict[str, ProfileSigns] = {}
        self._pinged_ms: dict[str, int] = {}
        self._gaps: deque[int] = deque(maxlen=GAPS_MAX)

    def note(self, message: Message, now_ms: int) -> None:
        """Take in a message that came at *now_ms*."""
        header = message.header
        if not isinstance(header, Header):
            return
        sender = header.sender
        if sender not in self._signs:
            if len(self._signs) >= NODES_MAX:
                return
            self._signs[sender] = ProfileSigns()
        self._signs[sender].note(message)
        if header.type == PING:
            before_ms = self._pinged_ms.get(sender)
            self._pinged_ms[sender] = now_ms
            if before_ms is not None:
                self._gaps.append(now_ms - before_ms)

    def profile(self, ours: Profile) -> Profile:
        """Whose rules most of the others follow; *ours* as long as it fits what half of them send."""
        fits = sum(any(one.name == ours.name for one in signs.fitting) for signs in self._signs.values())
        if 2 * fits >= len(self._signs):
            return ours
        return Counter(signs.profile for signs in self._signs.values()).most_common(1)[0][0]

    def node_timeout_ms(self) -> int | None:
        """The node timeout of the others, rounded to 100 ms; None as long as pings by chance may hide it.

        Each of n other nodes draws one of its n others every second (R31).  Where more pings come than that, most are due ones: they
        come when the last pong is older than half the node timeout (R32), which gossip may put off but not bring forward.
        """
        nodes, gaps = len(self._pinged_ms), list(self._gaps)
        if nodes < 2 or not gaps or 1000 * len(gaps) * nodes < MORE_THAN_CHANCE * sum(gaps):
            return None
        return timeout_of(gaps)
