"""Causes and kinds of view changes, and reasons for ignored inputs; the values appear in tables."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Cause of a view change: a protocol rule or another source (`silver/node_views.cause`)."""

    EXTENSION = "R15"
    MASTER_REMOVED = "R24"
    ADDRESS_GOSSIPED = "R45"
    NODE_GOSSIPED = "R46"
    EPOCH_OF_HEADER = "R48"
    FLAG_OF_HEADER = "R50"
    SILENCE = "R53"
    """PFAIL by timeout; no message shows it at once."""
    QUORUM = "R54"
    FAIL_MESSAGE = "R55"
    REACHABLE_AGAIN = "R55b"
    MEET = "R56"
    HANDSHAKE_ANSWERED = "R57"
    OTHER_ID_ANSWERS = "R58"
    HANDSHAKE_EXPIRED = "R59"
    FORGOTTEN = "R61"
    ADDRESS_OF_PING = "R62"
    HEADER_OF_MASTER = "R63"
    HEADER_OF_NEW_REPLICA = "R64"
    HEADER_OF_REPLICA = "R65"
    MASTER_OF_REPLICA = "R66"
    REPLICATE_ORDERED = "R67"
    SLOTS_ORDERED = "R68"
    SLOTS_CLAIMED = "R70"
    IMPORT_CLOSED = "R72"
    SLOTS_LOST = "R73"
    UPDATE = "R78"
    EPOCH_BUMPED = "R79"
    EPOCH_COLLISION = "R80"
    EPOCH_ORDERED = "R81"
    RESET_DONE = "R82"
    ELECTION_WON = "R93"
    ORPHANED_MASTER = "R105"
    LAST_SLOT_GIVEN = "R124"
    SAVED_FLAG = "R129"

    OWN_HEADER = "own header"
    OWN_GOSSIP = "own gossip"
    OWN_UPDATE = "own UPDATE"
    OWN_EXTENSION = "own extension"
    OWN_STATE = "own state"
    OWN_LINK = "own link"
    FAIL_SENT = "FAIL sent"
    POLL = "poll"
    LOG = "log"
    METRICS = "metrics"
    INFERRED = "inferred"
    """Derived without a message of that time: the owner's claim came later (R124), or PFAIL was not visible."""

    ASSUMED_NEW = "assumed new"
    FIRST_HEADER = "first header"
    MESSAGE = "message"
    PING = "ping"
    LINK = "link"
    LINK_DROPPED = "link dropped"
    TIME = "time"
    RESTART = "restart"
    RESET = "reset"


class Field(StrEnum):
    """Fields of a node's view shown by CLUSTER NODES (`silver/disagreements.field`)."""

    PFAIL = "pfail"
    FAIL = "fail"
    HEALTH = "health"
    NOFAILOVER = "nofailover"
    ADDRESS = "address"
    HOSTNAME = "hostname"
    ROLE = "role"
    MASTER = "master"
    SLOTS = "slots"
    CONFIG_EPOCH = "config_epoch"
    KNOWN = "known"


class Refusal(StrEnum):
    """Reason to refuse a vote (`silver/votes.reason`)."""

    NONE = ""
    """Vote granted."""
    NOT_A_VOTER = "not a voting master"
    """The voter is a replica or a master without slots."""
    OLD_EPOCH = "request epoch is older than ours"
    ALREADY_VOTED = "already voted in this epoch"
    IS_A_MASTER = "candidate is a master"
    UNKNOWN_MASTER = "candidate's master is not known"
    MASTER_IS_UP = "candidate's master is up"
    TOO_SOON = "voted for this master too recently"
    GREATER_SLOT_EPOCH = "a claimed slot has a greater epoch"
    NOT_ANSWERED = "not answered"
    """No reply was captured and no rule gives the reason."""


class ReportEnd(StrEnum):
    """End of a failure report (`silver/failure_reports.end`)."""

    NONE = ""
    """Still valid."""
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    NODE_REMOVED = "node removed"
    LOG = "log"


class Mechanism(StrEnum):
    """Mechanism of a config epoch increase (R79, R80, R81, R93, R97; `silver/epochs.mechanism`)."""

    ELECTION = "election"
    TAKEOVER = "takeover"
    COLLISION = "collision"
    BUMP = "bump"
    SET_CONFIG_EPOCH = "set-config-epoch"
    SLOT_IMPORT = "slot import"


class DownReason(StrEnum):
    """Reason for cluster state FAIL (R107, R108)."""

    NONE = ""
    """State OK."""
    MINORITY = "minority"
    UNCOVERED = "uncovered slots"


class PauseMark(StrEnum):
    """Sign of a manual failover: the replica's request, or the master's PAUSED flag (R98, R99)."""

    MFSTART = "mfstart"
    PAUSED = "paused"


class IgnoredReason(StrEnum):
    """Reason for an input without effect."""

    TOO_MANY_LINKS = "too many links"
    LINK_TO_UNKNOWN = "link to an unknown node"
    PING_TO_UNKNOWN = "ping to an unknown node"
    INVALID_MESSAGE = "invalid message"
    NO_WHOLE_HEADER = "no whole header"
    NO_FULL_HEADER = "no full header"
    OUR_OWN_NAME = "message in our own name"
    UNKNOWN_TYPE = "unknown type"
    NOTHING_TO_FOLLOW = "nothing to follow"
    LIGHT_FROM_UNKNOWN = "light message from an unknown sender"
    STALE_ROLE = "stale role"
    ODD_ID_OF_HANDSHAKE = "handshake with an impossible node id"
    ODD_ID_IN_SECTION = "gossip section with an impossible node id"
    ODD_ID_IN_ENTRY = "gossip entry with an impossible node id"
    FAIL_FROM_UNKNOWN = "FAIL from an unknown sender"
    FAIL_CHANGES_NOTHING = "FAIL that changes nothing"
    FAIL_OF_UNKNOWN = "FAIL about an unknown node"
    UPDATE_FROM_UNKNOWN = "UPDATE from an unknown sender"
    VOTE_REQUEST_FROM_UNKNOWN = "vote request from an unknown sender"
    VOTE_FROM_UNKNOWN = "vote from an unknown sender"
    MFSTART_FROM_UNKNOWN = "MFSTART from an unknown sender"
    PUBLISH_FROM_UNKNOWN = "PUBLISH from an unknown sender"
