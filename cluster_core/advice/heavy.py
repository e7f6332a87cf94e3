"""What does not save memory by itself: keys that could expire, keys and hash tags that should be split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster_core.slots.key_slot import hash_tag

EXPIRY_SHARE_MIN = 0.01
"""A prefix below this share of all memory is not told."""
PIECE_SHARE = 0.01
"""A key or tag that takes more of a master's mean is split into pieces that take less."""
LISTED_MAX = 10


class Held(NamedTuple):
    """A prefix: keys, those that expire (None: not known), bytes, and bytes that nobody touched for 30 days (None: not recorded)."""

    name: bytes
    keys: int
    expires: int | None
    size: int
    untouched_30d: int | None


class Splittable(NamedTuple):
    """A key (*parts* are its elements; of a string, its bytes) or a hash tag (its keys) in *slot*."""

    kind: str
    name: bytes
    slot: int
    size: int
    parts: int
    unit: str


class Hint(NamedTuple):
    """A row of ``gold/savings`` that is not ranked: *saved_bytes* is None where nothing can be said."""

    kind: str
    subject: bytes
    saved_bytes: int | None
    keys: int
    how: str
    risk: str
    undo: str


def expiries(held: Iterable[Held], whole: int) -> list[Hint]:
    """Return prefixes none of whose keys expire, those with most untouched memory first; a prefix of such a prefix is not told again."""
    found: list[Held] = []
    for one in sorted(held, key=lambda one: (-(one.untouched_30d or 0), -one.size, len(one.name), one.name)):
        nested = any(one.name.startswith(other.name) or other.name.startswith(one.name) for other in found)
        if one.expires == 0 and one.keys > 1 and one.size >= whole * EXPIRY_SHARE_MIN and not nested:
            found.append(one)
    return [
        Hint(
            "expire", one.name, one.untouched_30d, one.keys,
            f"EXPIRE on its keys: none of {one.keys:,} ever expires, {one.size:,} bytes in all; "
            + ("what nobody touched for 30 days would come free" if one.untouched_30d is not None else "how much is unused is not recorded"),
            "keys vanish: only where they can be made again", "PERSIST, before they expire",
        )
        for one in found[:LISTED_MAX]
    ]  # fmt: skip


def splits(heavy: Iterable[Splittable], slots: Mapping[int, int], mean_node: int) -> list[Hint]:
    """Return keys and tags that take more than `PIECE_SHARE` of a master's mean, and into how many pieces they are best cut.

    Keys come before tags: what a tag holds beside keys that are themselves to be cut is what its other keys can be parted into.  *slots* are
    bytes by slot.
    """
    least = max(int(mean_node * PIECE_SHARE), 1)
    found: list[Hint] = []
    cut: dict[bytes | None, list[int]] = {}
    for one in heavy:
        is_key = one.kind == "split_key"
        sizes = [] if is_key else cut.get(one.name, [])
        if is_key and one.size > least:
            cut.setdefault(hash_tag(one.name), []).append(one.size)
        size, parts = one.size - sum(sizes), one.parts - len(sizes)
        pieces = min(-(-size // least), parts)
        if size <= least or pieces < 2 or len(found) == 2 * LISTED_MAX:
            continue
        before = slots.get(one.slot, one.size)
        after = before - size + size // pieces
        beside = f", beside {len(sizes):,} told by themselves," if sizes else ""
        found.append(
            Hint(
                one.kind, one.name, None, 1 if is_key else one.parts,
                f"{pieces} pieces of about {parts // pieces:,} {one.unit}{beside} under names with different hash tags, each about {100 * PIECE_SHARE:.0f} % of what a "
                f"master holds in the mean: slot {one.slot} goes from {before:,} to about {after:,} bytes, and the pieces can be balanced",
                "programs change; commands and transactions over all pieces end", "write the pieces back into one",
            )
        )  # fmt: skip
    return found
