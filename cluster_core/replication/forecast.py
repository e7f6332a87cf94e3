"""What had each PSYNC to be answered?  Asked of the same decision that a server makes, on what the traffic had shown.

The size of a backlog is nowhere in a replication stream.  It is taken, in this order, from what the user says, from INFO
and CONFIG SET that passed by, from the version's default; where the answers themselves contradict the default, from the
answers: bytes that were still there and bytes that were gone bound it from both sides.  `Resync.size_known_by` says
which it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cluster_core.replication.observed import ObservedServer
from cluster_core.replication.psync import (
    FORCED_ID,
    JEMALLOC_BLOCK_BYTES,
    LIBC_BLOCK_BYTES,
    UNKNOWN_ID,
    Answer,
    AnswerKind,
    Lineage,
    MasterView,
    Reason,
    Request,
    decide_psync,
)
from cluster_core.replication.rows import MasterFacts, Resync

EVERY_SERVER: Final = ""
"""Key of a backlog size that holds for all servers."""
SIZE_BITS_MIN, SIZE_BITS_MAX = 14, 40
"""Sizes that are tried: from the least that a server takes (16 KiB) to 1 TiB."""
BY_OPTION, BY_DEFAULT, BY_ANSWERS = "option", "default", "answers"
_REFUSALS: Final = (
    ("NOMASTERLINK Can't SYNC while failing over", Reason.FAILING_OVER),
    ("NOMASTERLINK", Reason.NO_MASTER_LINK),
    ("LOADING", Reason.LOADING),
    ("ERR PSYNC FAILOVER can't be sent to a master", Reason.NOT_A_REPLICA),
    ("ERR PSYNC FAILOVER replid must match", Reason.OTHER_ID),
    ("ERR value is not an integer", Reason.BAD_OFFSET),
)


def foresee_all(
    resyncs: Sequence[Resync], servers: Mapping[str, ObservedServer], given: Mapping[str, int] | None = None
) -> None:
    """Fill in, for every one of *resyncs*, what was to be expected and why the answer was what it was.

    *given*: sizes of backlogs by server, or for `EVERY_SERVER`.
    """
    learned = learn_sizes(resyncs, servers, given or {})
    for resync in resyncs:
        server = servers[resync.master]
        resync.backlog_bytes, resync.size_known_by = learned[resync.master]
        block_bytes = server.profile.block_bytes
        facts = resync.facts
        is_plain = facts.is_stranger or (facts.is_replica and not facts.is_link_up)
        if facts.lineage is not None or is_plain or _needs_no_history(resync.request):
            resync.foreseen = _foresee(resync.request, facts, resync.backlog_bytes, block_bytes)
            is_guess = resync.size_known_by in (BY_ANSWERS, BY_DEFAULT)
            sizes = (1 << SIZE_BITS_MIN, 1 << SIZE_BITS_MAX) if is_guess else (resync.backlog_bytes,)
            others = {
                _foresee(resync.request, facts, size, block).kind
                for size in sizes
                for block in (JEMALLOC_BLOCK_BYTES, LIBC_BLOCK_BYTES, 0)
            }
            resync.is_certain = facts.lineage is not None and others == {resync.foreseen.kind}
        after = _with_hindsight(resync)
        if after.created is not None:
            first = first_kept(after.created, after.end, resync.backlog_bytes, block_bytes)
            resync.backlog = (first, after.end)
        resync.explained = _explain(resync, after, block_bytes)


def _needs_no_history(request: Request) -> bool:
    """Whether the answer is plain without knowing anything of the one asked.

    Who asks for the first byte has nothing but its own id (P6), as does who has none.  Of any other history a master that
    was not seen before may have all or nothing.
    """
    return request.is_sync or request.failover or request.offset in (None, 1) or request.replid[:1] == FORCED_ID


def learn_sizes(
    resyncs: Sequence[Resync], servers: Mapping[str, ObservedServer], given: Mapping[str, int]
) -> dict[str, tuple[int, str]]:
    """The size of each master's backlog and how it is known."""
    pooled = _tries(resyncs)
    found = {}
    for name in {resync.master: None for resync in resyncs}:
        server = servers[name]
        size = given.get(name) or given.get(EVERY_SERVER)
        if size:
            found[name] = (size, BY_OPTION)
        elif server.backlog_bytes:
            found[name] = (server.backlog_bytes, server.size_known_by)
        else:
            default, block_bytes = server.profile.backlog_bytes, server.profile.block_bytes
            size = _fitting(pooled, default, block_bytes)  # one deployment is mostly configured alike
            if size is None:
                own = _tries([resync for resync in resyncs if resync.master == name])
                size = _fitting(own, default, block_bytes) or default
            found[name] = (size, BY_DEFAULT if size == default else BY_ANSWERS)
    return found


class _Try(NamedTuple):
    """A replica asked for byte *offset* of a stream that had come to *end*; *held*: the backlog still had it."""

    created: int
    end: int
    offset: int
    held: bool


def _tries(resyncs: Sequence[Resync]) -> list[_Try]:
    """What the answers say of backlogs: those that hang on nothing else."""
    found = []
    for resync in resyncs:
        facts, offset = _with_hindsight(resync), resync.request.offset
        known, created = facts.lineage, facts.created
        if known is None or created is None or offset is None or resync.request.is_sync:
            continue
        if resync.answered in (None, AnswerKind.REFUSED) or not created <= offset <= facts.end:
            continue
        if known.knows(resync.request.replid, offset):
            found.append(_Try(created, facts.end, offset, resync.answered is AnswerKind.PARTIAL))
    return found


def _fitting(tries: Sequence[_Try], default: int, block_bytes: int) -> int | None:
    """A size that explains all *tries*: the default, else the largest power of two, as people configure them."""
    for size in (default, *(1 << power for power in range(SIZE_BITS_MAX, SIZE_BITS_MIN - 1, -1))):
        if all((t.offset >= first_kept(t.created, t.end, size, block_bytes)) == t.held for t in tries):
            return size
    return None


def _foresee(request: Request, facts: MasterFacts, size_bytes: int, block_bytes: int) -> Answer:
    """What the one asked had to say, as far as the traffic had shown its state; an id that was not seen equals no other."""
    backlog = None
    if facts.created is not None:
        first = first_kept(facts.created, facts.end, size_bytes, block_bytes)
        backlog = (first, facts.end - first + 1)
    view = MasterView(
        replace(facts.lineage, offset=facts.end) if facts.lineage else Lineage(UNKNOWN_ID), backlog,
        is_replica=facts.is_replica, is_link_up=facts.is_link_up, dual_channel=facts.dual_channel,
    )  # fmt: skip
    return decide_psync(request, view)


def _with_hindsight(resync: Resync) -> MasterFacts:
    """The state of the one asked, with what its answer gave away."""
    facts, replid = resync.facts, resync.replid
    known = replace(facts.lineage) if facts.lineage else None
    if known is None or replid is None or resync.answered is AnswerKind.REFUSED:
        return facts
    if known.replid == UNKNOWN_ID:  # it was known to have been promoted
        known.replid = replid
    elif known.replid != replid:
        known.promote(replid)
    end = facts.end
    if resync.answered is AnswerKind.FULL and resync.offset is not None:
        end = max(resync.offset, 0)
    return replace(facts, lineage=known, end=end)


def _explain(resync: Resync, after: MasterFacts, block_bytes: int) -> Answer | None:
    """Why the answer was what it was; where the known state gives no reason for it, the reason is what is left."""
    if resync.answered is None:
        return None
    if resync.answered is AnswerKind.REFUSED:
        text = resync.answer_text
        reason = next((reason for start, reason in _REFUSALS if text.startswith(start)), Reason.SERVER_ERROR)
        return Answer(AnswerKind.REFUSED, reason)
    if resync.request.failover:
        before = _foresee(resync.request, resync.facts, resync.backlog_bytes, block_bytes)
        if before.kind is resync.answered:
            return before
    free = replace(after, is_replica=False, is_link_up=True)
    answer = _foresee(replace(resync.request, failover=False), free, resync.backlog_bytes, block_bytes)
    if answer.kind is resync.answered:
        return answer
    if resync.answered is AnswerKind.PARTIAL:
        return Answer(
            AnswerKind.PARTIAL, Reason.SAME_ID if resync.replid == resync.request.replid else Reason.SECOND_ID
        )
    reason = answer.reason if answer.kind in (AnswerKind.FULL, AnswerKind.DUAL_CHANNEL) else Reason.BACKLOG_PASSED
    return Answer(resync.answered, reason)


def first_kept(created: int, end: int, size_bytes: int, block_bytes: int) -> int:
    """The first byte that a backlog of *size_bytes* still has when the stream has come to byte *end*.

    *created* is the first byte that it ever had.  It is made of blocks and drops the first one as soon as the others
    hold more than its size, so it holds up to one block more than that (`incrementalTrimReplicationBacklog`); with
    *block_bytes* 0 it is a circle of exactly its size.  Blocks that a slow replica still reads are not dropped: then the
    first byte is an earlier one.

    >>> first_kept(1, 319922, 65536, 20440)
    245281
    """
    surplus = end - created + 1 - size_bytes
    if surplus <= 0:
        return created
    if not block_bytes:
        return created + surplus
    return created + (-(-surplus // block_bytes) - 1) * block_bytes
