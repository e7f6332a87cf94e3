"""Every resync in one sentence: who asked whom for what, what came back, why, and what it took."""

from __future__ import annotations

from typing import Final

from cluster_core.replication.psync import AnswerKind, Reason
from cluster_core.replication.rows import Outcome, Resync
from cluster_core.sizes import write_bytes

_GUESSED: Final = ("answers", "default")
_KNOWN_BY: Final = {"default": "the version's default", "answers": "as its answers show", "option": "as given"}


def tell_resync(resync: Resync) -> str:
    """The sentence.

    >>> from cluster_core.replication.psync import Answer, Request
    >>> from cluster_core.replication.rows import MasterFacts, Outcome
    >>> facts = MasterFacts(None, 0, None, False, False, False)
    >>> forced = Resync(0, 0, 0, "b:2", "a:1", Request("?", -1), facts, answered=AnswerKind.FULL, outcome=Outcome.DONE)
    >>> forced.explained = Answer(AnswerKind.FULL, Reason.FORCED)
    >>> tell_resync(forced)
    'b:2 asked a:1 for everything and was sent everything, because it has no history of its own.'
    """
    asked = f"{resync.replica} asked {resync.master} {_question(resync)}"
    if resync.answered is None:
        return f"{asked}; no answer was captured."
    why = f", because {_reason(resync)}" if resync.explained is not None else ""
    return f"{asked} and {_answer(resync)}{why}{_cost(resync)}."


def explain_reason(reason: Reason) -> str:
    """A reason by itself, in words."""
    return _PLAIN[reason]


def _question(resync: Resync) -> str:
    request = resync.request
    if request.is_dump_channel:
        return "for the dump on a channel of its own"
    if request.is_sync:
        return "for everything with SYNC"
    if request.replid[:1] == "?":
        return "for everything"
    where = f"at byte {request.offset:,}" if request.offset is not None else "at a byte that is no number"
    text = f"to go on {where} of {short_id(request.replid)}"
    if request.failover:
        text += " and to take over as master"
    elif request.is_main_channel:
        text += ", behind the dump"
    if resync.is_restart:
        text += " (it was started again from an older file)"
    return text


def _answer(resync: Resync) -> str:
    match resync.answered:
        case AnswerKind.PARTIAL:
            changed = resync.replid not in (None, resync.request.replid)
            name = f" under the new id {short_id(resync.replid or '')}" if changed else ""
            return f"went on{name}"
        case AnswerKind.DUAL_CHANNEL:
            return "was told to fetch everything over two channels"
        case AnswerKind.REFUSED:
            return f"was refused ({resync.answer_text[:80]})"
        case _:
            return "was sent everything"


def _reason(resync: Resync) -> str:
    if resync.explained is None:
        return ""
    request, reason = resync.request, resync.explained.reason
    facts, offset = resync.facts, resync.request.offset or 0
    end = resync.offset if resync.answered is AnswerKind.FULL and resync.offset is not None else facts.end
    if reason is Reason.BACKLOG_PASSED:
        behind = f"{max(0, end - offset + 1):,} bytes"
        size = f"{write_bytes(resync.backlog_bytes)}, {_KNOWN_BY.get(resync.size_known_by, resync.size_known_by)}"
        if resync.size_known_by in _GUESSED or resync.backlog is None:
            return f"it was {behind} behind and the master's backlog no longer reached back that far"
        return f"it was {behind} behind and the master's backlog ({size}) began at byte {resync.backlog[0]:,}"
    if reason is Reason.SECOND_ID_PASSED and facts.lineage is not None:
        known = facts.lineage
        limit = known.second_offset if known.replid2 == request.replid else known.offset + 1
        return (
            f"the master left that history at byte {limit:,}: "
            f"{max(0, offset - limit):,} bytes of the replica's are not the master's, and are lost"
        )
    if reason is Reason.ID_MISMATCH and offset == 1:
        return f"the id is the replica's own, without a byte in it, and {_PLAIN[reason]}"
    return _PLAIN[reason]


def _cost(resync: Resync) -> str:
    parts = []
    if resync.dump_bytes and resync.answered is not AnswerKind.DUAL_CHANNEL and not resync.request.is_main_channel:
        form = {"disk": "from a file", "eof": "without a file"}.get(resync.form, "")
        parts.append(f"{resync.dump_bytes:,} bytes of dump {form}".rstrip())
    elif resync.stream_bytes:
        parts.append(f"{resync.stream_bytes:,} bytes of backlog")
    if resync.done_ns is not None:
        parts.append(_duration(resync.done_ns - resync.ts_ns))
    if resync.outcome == Outcome.BROKEN:
        parts.append("the connection broke before it was done")
    elif resync.outcome == Outcome.UNFINISHED:
        parts.append("not done when the capture ended")
    return f"; {', '.join(parts)}" if parts else ""


def _duration(count_ns: int) -> str:
    return f"{count_ns / 1e6:.2f} ms" if count_ns < 10**9 else f"{count_ns / 1e9:.2f} s"


def short_id(replid: str) -> str:
    """The first digits of a replication id."""
    return replid[:8] or "?"


_PLAIN: Final[dict[Reason, str]] = {
    Reason.SAME_ID: "it is the master's own history and its backlog still has what is missing",
    Reason.SECOND_ID: "it is the history that the master had before it was promoted, up to a byte that both have",
    Reason.FAILOVER: "the one asked has all of the asker's data: it became the master",
    Reason.MAIN_CHANNEL: "the dump comes over the other channel, and this one carries what was written since",
    Reason.FORCED: "it has no history of its own",
    Reason.SYNC_COMMAND: "SYNC knows no history",
    Reason.DUMP_CHANNEL: "that is what the channel is for",
    Reason.ID_MISMATCH: "the master has no history of that name",
    Reason.SECOND_ID_PASSED: "it has bytes of that history that the master never had",
    Reason.NO_BACKLOG: "the master keeps no backlog",
    Reason.BACKLOG_PASSED: "the master's backlog no longer reaches back that far",
    Reason.AHEAD: "it is ahead of the master",
    Reason.NO_MASTER_LINK: "the one asked is a replica without a link to its own master",
    Reason.FAILING_OVER: "the one asked was about to hand over",
    Reason.LOADING: "the one asked was still loading",
    Reason.BAD_OFFSET: "the offset was no number",
    Reason.NOT_A_REPLICA: "only a replica can take over",
    Reason.OTHER_ID: "the one asked has another history than the asker",
    Reason.SERVER_ERROR: "of a reason outside replication",
}
