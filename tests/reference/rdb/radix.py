"""Radix trees of stream ids (``rax``): nodes and bytes, from the ids in their order, without building the tree."""

from __future__ import annotations

from cluster_core.memory.allocators import allocated_bytes
from cluster_core.memory.model import ID_BYTES, LEAF_BYTES, TREE_BYTES


def chain_bytes(characters: int) -> int:
    """Return the bytes of a node that spells *characters* and has one child (`raxNodeCurrentLength`)."""
    return 8 + ((4 + characters + 7) & ~7)


def branch_bytes(children: int) -> int:
    """Return the bytes of a node with several *children*."""
    return 8 * children + ((4 + children + 7) & ~7)


class RadixTree:
    """Counts the nodes of the tree of the ids that are given to `add` in ascending order, and what they take.

    How: two ids that follow each other part at a branch, as deep as their common prefix is long.  A branch is complete when an id
    parts above it; only the branches on the way to the last id are open, at most one a depth.
    """

    def __init__(self, allocator: int) -> None:
        self._allocator = allocator
        self._children = [0] * ID_BYTES
        self._last = b""
        self.count = self.nodes = self.node_bytes = 0

    def add(self, id_: bytes) -> None:
        """Add an id of 16 bytes; one that is equal to the last is none."""
        if self.count:
            depth = _common_prefix(self._last, id_)
            if depth == ID_BYTES:
                return
            self._close(depth)
            self._children[depth] = self._children[depth] + 1 if self._children[depth] else 2
        self._last = id_
        self.count += 1

    def finish(self) -> tuple[int, int, int]:
        """Return (ids, nodes, bytes of the tree with its head), and begin anew."""
        if self.count:
            self._close(-1)
        else:
            self._note(8)
        found = self.count, self.nodes, self.node_bytes + allocated_bytes(self._allocator, TREE_BYTES)
        self.clear()
        return found

    def clear(self) -> None:
        """Forget the ids so far."""
        self.count = self.nodes = self.node_bytes = 0
        for depth in range(ID_BYTES):
            self._children[depth] = 0

    def _close(self, depth: int) -> None:
        """The last id's leaf and every branch below *depth* are complete."""
        below = ID_BYTES
        self._note(LEAF_BYTES)
        for at in range(ID_BYTES - 1, depth, -1):
            if self._children[at]:
                self._chain(below - at - 1)
                self._note(branch_bytes(self._children[at]))
                self._children[at] = 0
                below = at
        self._chain(below - depth - 1)

    def _chain(self, characters: int) -> None:
        if characters:
            self._note(chain_bytes(characters))

    def _note(self, size: int) -> None:
        self.nodes += 1
        self.node_bytes += allocated_bytes(self._allocator, size)


def _common_prefix(one: bytes, other: bytes) -> int:
    for at in range(ID_BYTES):
        if one[at] != other[at]:
            return at
    return ID_BYTES
