"""Which profiles a node's messages fit: what servers of different versions write differently (R5 to R7, R15, R16, R20, R39).

Not every version can be told from its neighbours on the wire: then several profiles fit, and the newest one is taken of the
family that has the most of them.  What a log or INFO says of the version decides between them.
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
"""Bound of what is remembered of one node; a real one shows a few dozen signs."""
NAMED_ONCE_IN_TEN: Final = 0.9
NEVER_GOSSIPED: Final = 1e-9
"""A receiver that was not gossiped although chance would have it so with all but this probability is never gossiped."""
VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?!\d)")
DEVELOPMENT: Final = 255
"""The major version of servers that were never released: it tells nothing."""


class Sign(NamedTuple):
    """What of one message depends on the server's version: its type, flags, mflags[0], types of its extensions, and whether its
    gossip names its receiver.
    """

    kind: int
    flags: int
    mflags: int
    extensions: frozenset[int] = frozenset()
    names_receiver: bool = False


def fits(profile: Profile, sign: Sign) -> bool:
    """Whether a server of *profile* may have sent a message with *sign*."""
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
    """R6: whether EXT_DATA stands where this server puts it."""
    when = profile.extension_flag
    expected = bool(sign.extensions) or when is ExtensionFlag.ALWAYS
    expected = expected or (when is ExtensionFlag.GOSSIP and sign.kind in GOSSIP_TYPES)
    return bool(sign.mflags & EXT_DATA) == expected


def _extends(profile: Profile, sign: Sign) -> bool:
    """R15, R16: whether this server writes these extensions, and may leave them out.

    Valkey 9.1 leaves them out of a PONG now and then, although it answers strangers with them.
    """
    if profile.shard_ids is ShardIds.NONE:
        return sign.extensions <= {HOSTNAME}
    if SHARD_ID in sign.extensions:
        return True
    return profile.extension_readers is not ExtensionReaders.EVERYBODY and not sign.extensions


class ProfileSigns:
    """Feed it messages that one node sent, and what was said of its version; `profile` is the nearest one, `fitting` all that fit.

    A message that fits no profile (of a server that is not known, or made by hand) changes nothing.  One that fits only others
    than those before it is of another server: the node was upgraded.
    """

    __slots__ = ("_fitting", "_missing", "_seen")

    def __init__(self) -> None:
        self._fitting: tuple[str, ...] = tuple(PROFILES)
        self._seen: dict[tuple[int, ...], None] = {}
        self._missing = 1.0

    @property
    def fitting(self) -> tuple[Profile, ...]:
        """The profiles that fit all that was seen."""
        return tuple(PROFILES[name] for name in self._fitting)

    @property
    def profile(self) -> Profile:
        """The one to be used."""
        return nearest(self._fitting)

    def note(self, message: Message, receiver: str = "") -> None:
        """Take in a message that the node sent, to *receiver* where that is known; light ones tell nothing."""
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
        """Take in what is known of a message without the message."""
        key = (sign.kind, sign.flags & VERSION_FLAGS, sign.mflags & EXT_DATA, len(sign.extensions), sign.names_receiver)
        self._take(key, sign)

    def note_version(self, text: str) -> None:
        """Take in name and version from the log of a start or INFO (``Valkey 8.1.8``, ``7.2.4``).

        The newest profile that is not newer fits: of the named server, or of each family where no name is given.  A server
        under development (version 255) tells its family only.  Signs seen before the start no longer count.
        """
        product, _, number = text.rpartition(" ")
        told = VERSION.match(number)
        named = tuple(group for group in families() if group[0].name.startswith(f"{product.lower()}-"))
        if told is None or (int(told[1]) == DEVELOPMENT and not named):
            return
        if int(told[1]) == DEVELOPMENT:
            self._fitting = tuple(profile.name for profile in named[0])
        else:
            version = (int(told[1]), int(told[2]))
            self._fitting = tuple(nearest_of_family(family, version).name for family in named or families())
        self._seen, self._missing = {}, 1.0

    def note_absences(self, count: int) -> None:
        """*count* messages with gossip were to a node that it did not name: chance would have named it in one of ten, or more
        often (R39: a tenth of the table, three at least).
        """
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
    """The profiles of each server, from the oldest to the newest."""
    grouped: dict[str, list[Profile]] = {}
    for name, profile in PROFILES.items():
        grouped.setdefault(name.partition("-")[0], []).append(profile)
    return tuple(tuple(group) for group in grouped.values())


def version_of(profile: Profile) -> tuple[int, int]:
    """The version that a profile is named after.

    >>> version_of(PROFILES["redis-8"]), version_of(PROFILES["valkey-9.1"])
    ((8, 0), (9, 1))
    """
    major, _, minor = profile.name.partition("-")[2].partition(".")
    return int(major), int(minor or 0)


def nearest_of_family(family: Iterable[Profile], version: tuple[int, int]) -> Profile:
    """The newest profile that is not newer than *version*, or else the oldest."""
    known = tuple(family)
    return next((profile for profile in reversed(known) if version_of(profile) <= version), known[0])


def profile_of_version(product: str, version: str) -> Profile | None:
    """The profile of a server that says its name and version; None for one that is not known or was never released.

    >>> profile_of_version("valkey", "8.1.4").name, profile_of_version("redis", "6.0.9").name
    ('valkey-8.1', 'redis-6.2')
    """
    told = VERSION.match(version)
    family = next((group for group in families() if group[0].name.startswith(f"{product.lower()}-")), None)
    if told is None or family is None or int(told[1]) == DEVELOPMENT:
        return None
    return nearest_of_family(family, (int(told[1]), int(told[2])))


@cache
def nearest(names: tuple[str, ...]) -> Profile:
    """Which of several that fit is used: the newest of the family with the most of them, of two such of the first."""
    groups = [[profile for profile in family if profile.name in names] for family in families()]
    return max(groups, key=len)[-1]


def shown(fitting: Iterable[Profile]) -> str:
    """The profiles that fit in words.

    >>> shown([PROFILES["redis-6.2"], PROFILES["redis-7.0"]])
    'redis-6.2 or redis-7.0'
    """
    return " or ".join(profile.name for profile in fitting)
