"""Infer server versions from bus messages (R5 to R7, R15, R16, R20, R39).

If several profiles fit, the newest of the family with the most matches is used; a version in a log or INFO decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from cluster_core.gossip.flags import LIGHT_HEADERS, MY_PRIMARY_FAIL
from cluster_core.gossip.profile import PROFILES, ExtensionFlag, ExtensionReaders, Profile, ShardIds
from cluster_core.wire.bus import GOSSIP_TYPES, Gossip, Header, Message, MessageFlag, MessageType
from cluster_core.wire.bus_message import CLIENT_IPV4, CLIENT_IPV6, HOSTNAME, SHARD_ID

PUBLISHSHARD: Final = int(MessageType.PUBLISHSHARD)
EXT_DATA: Final = int(MessageFlag.EXT_DATA)
VERSION_FLAGS: Final = LIGHT_HEADERS | MY_PRIMARY_FAIL
SIGNS_MAX: Final = 1000
"""Maximum stored signs per node; a real one shows a few dozen."""
NAMED_ONCE_IN_TEN: Final = 0.9
NEVER_GOSSIPED: Final = 1e-9
"""Probability below which a receiver missing from gossip means that receivers are never gossiped."""
VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")
DEVELOPMENT: Final = 255
"""Major version of unreleased servers, which is no evidence."""


class Sign(NamedTuple):
    """Version-dependent parts of a message: type, flags, mflags[0], extension types, gossip about the receiver."""

    kind: int
    flags: int
    mflags: int
    extensions: frozenset[int] = frozenset()
    names_receiver: bool = False


def fits(profile: Profile, sign: Sign) -> bool:
    """Return whether a server of *profile* can send a message with *sign*."""
    return (
        sign.flags & LIGHT_HEADERS == profile.capabilities & LIGHT_HEADERS
        and (profile.best_replica_hurries or not sign.flags & MY_PRIMARY_FAIL)
        and (profile.receiver_gossiped or not sign.names_receiver)
        and (profile.host_names or (sign.kind != PUBLISHSHARD and HOSTNAME not in sign.extensions))
        and (profile.client_addresses or not sign.extensions & {CLIENT_IPV4, CLIENT_IPV6})
        and _flags_extensions(profile, sign)
        and (sign.kind not in GOSSIP_TYPES or _extends(profile, sign))
    )


def _flags_extensions(profile: Profile, sign: Sign) -> bool:
    """Return whether EXT_DATA is where this server sets it (R6)."""
    when = profile.extension_flag
    expected = bool(sign.extensions) or when is ExtensionFlag.ALWAYS
    expected = expected or (when is ExtensionFlag.GOSSIP and sign.kind in GOSSIP_TYPES)
    return bool(sign.mflags & EXT_DATA) == expected


def _extends(profile: Profile, sign: Sign) -> bool:
    """Return whether this server sends these extensions, or may omit them (R15, R16), as Valkey 9.1 in some PONGs."""
    if profile.shard_ids is ShardIds.NONE:
        return sign.extensions <= {HOSTNAME}
    if SHARD_ID in sign.extensions:
        return True
    return profile.extension_readers is not ExtensionReaders.EVERYBODY and not sign.extensions


class ProfileSigns:
    """Collects one node's messages and reported version; `fitting` lists matching profiles, `profile` the best.

    Messages that fit no profile are ignored; one that contradicts earlier messages means an upgrade.
    """

    __slots__ = ("_fitting", "_missing", "_seen")

    def __init__(self) -> None:
        self._fitting: tuple[str, ...] = tuple(PROFILES)
        self._seen: dict[tuple[int, ...], None] = {}
        self._missing = 1.0

    @property
    def fitting(self) -> tuple[Profile, ...]:
        """Return the profiles that fit all signs."""
        return tuple(PROFILES[name] for name in self._fitting)

    @property
    def profile(self) -> Profile:
        """Return the profile to use."""
        return nearest(self._fitting)

    def note(self, message: Message, receiver: str = "") -> None:
        """Add a message sent by the node, to *receiver* if known; light messages are no evidence."""
        header, body = message.header, message.body
        if type(header) is not Header:
            return
        extensions = body.extensions if type(body) is Gossip else ()
        names_receiver = False
        if receiver and type(body) is Gossip and self._missing > NEVER_GOSSIPED:
            names_receiver = any(entry.node == receiver for entry in body.entries)
            self.note_absences(not names_receiver)
        key = (header.type, header.flags & VERSION_FLAGS, header.mflags[0] & EXT_DATA, len(extensions), names_receiver)
        if key not in self._seen:
            types = frozenset(extension.type for extension in extensions)
            self._take(key, Sign(key[0], key[1], key[2], types, names_receiver))

    def note_sign(self, sign: Sign) -> None:
        """Add the sign of a message."""
        key = (sign.kind, sign.flags & VERSION_FLAGS, sign.mflags & EXT_DATA, len(sign.extensions), sign.names_receiver)
        self._take(key, sign)

    def note_version(self, text: str) -> None:
        """Set name and version from a start log line or INFO (``Valkey 8.1.8``, ``7.2.4``), replacing earlier signs.

        Selects the newest profile up to that version; an unreleased version (255) gives the family only.
        """
        product, _, number = text.rpartition(" ")
        match = VERSION.match(number)
        named = tuple(group for group in families() if group[0].name.startswith(f"{product.lower()}-"))
        if match is None or (int(match[1]) == DEVELOPMENT and not named):
            return
        if int(match[1]) == DEVELOPMENT:
            self._fitting = tuple(profile.name for profile in named[0])
        else:
            version = (int(match[1]), int(match[2]))
            self._fitting = tuple(nearest_of_family(family, version).name for family in named or families())
        self._seen, self._missing = {}, 1.0

    def note_absences(self, count: int) -> None:
        """Add *count* gossip messages without their receiver, which chance puts in at least a tenth of messages (R39)."""
        if count and self._missing:
            self._missing *= NAMED_ONCE_IN_TEN**count
            if self._missing <= NEVER_GOSSIPED:
                self._missing = 0.0
                self._narrow((), [profile.name for profile in PROFILES.values() if not profile.receiver_gossiped])

    def _take(self, key: tuple[int, ...], sign: Sign) -> None:
        if key not in self._seen and len(self._seen) < SIGNS_MAX:
            self._seen[key] = None
            self._missing = 0.0 if sign.names_receiver else self._missing
            self._narrow(key, [profile.name for profile in PROFILES.values() if fits(profile, sign)])

    def _narrow(self, key: tuple[int, ...], allowed: Sequence[str]) -> None:
        left = tuple(name for name in self._fitting if name in allowed)
        if left:
            self._fitting = left
        elif key and allowed:
            self._fitting, self._seen, self._missing = tuple(allowed), {key: None}, 1.0


def families() -> tuple[tuple[Profile, ...], ...]:
    """Return the profiles of each server, oldest to newest."""
    grouped: dict[str, list[Profile]] = {}
    for name, profile in PROFILES.items():
        grouped.setdefault(name.partition("-")[0], []).append(profile)
    return tuple(tuple(group) for group in grouped.values())


def version_of(profile: Profile) -> tuple[int, int]:
    """Return the version in a profile's name.

    >>> version_of(PROFILES["redis-8"]), version_of(PROFILES["valkey-9.1"])
    ((8, 0), (9, 1))
    """
    major, _, minor = profile.name.partition("-")[2].partition(".")
    return int(major), int(minor or 0)


def nearest_of_family(family: Iterable[Profile], version: tuple[int, int]) -> Profile:
    """Return the newest profile not newer than *version*, else the oldest."""
    known = tuple(family)
    return next((profile for profile in reversed(known) if version_of(profile) <= version), known[0])


@cache
def nearest(names: tuple[str, ...]) -> Profile:
    """Choose from matching profiles: the newest of the family with the most; ties go to the first family."""
    groups = [[profile for profile in family if profile.name in names] for family in families()]
    return max(groups, key=len)[-1]


def shown(fitting: Iterable[Profile]) -> str:
    """Format the matching profiles.

    >>> shown([PROFILES["redis-6.2"], PROFILES["redis-7.0"]])
    'redis-6.2 or redis-7.0'
    """
    return " or ".join(profile.name for profile in fitting)
