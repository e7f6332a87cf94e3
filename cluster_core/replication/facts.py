"""What the traffic had shown of a server at the moment at which it was asked."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.replication.conversation import Conversation
from cluster_core.replication.lineage import UNKNOWN_ID
from cluster_core.replication.link_book import LinkBook
from cluster_core.replication.observed import ObservedServer
from cluster_core.replication.rows import MasterFacts


def gather_facts(
    master: ObservedServer, replica: ObservedServer, conversation: Conversation, book: LinkBook
) -> MasterFacts:
    """The state of *master* when the replica of *conversation* asks it.

    A server that followed another and follows nobody any more was promoted: as a replica without a link it would refuse
    (P3, P5).  So was one that lost its master and then sent its own replicas away.  A server that was never seen to
    replicate cannot have the history of a replica whose history was.
    """
    span = master.span if master.span is not None and master.span.to_ns is None else None
    if span is not None and span.state == "lost":
        sent_away = book.was_sent_away(conversation.replica, master.name, span.from_ns)
        span = None if sent_away else span
    known = replace(master.lineage) if master.lineage else None
    if span is None and master.was_following and known is not None:
        known.promote(UNKNOWN_ID)
    dual_channel = master.dual_channel
    if dual_channel is None:  # a replica that tells its version is a Valkey, and so is its master, mostly
        dual_channel = master.profile.dual_channel or bool(conversation.version)
    is_link_up = span.is_up if span is not None else False
    is_stranger = known is None and not master.was_restarted and replica.lineage is not None
    return MasterFacts(known, master.end, master.backlog_from, span is not None, is_link_up, dual_channel, is_stranger)
