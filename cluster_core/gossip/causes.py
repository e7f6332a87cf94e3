"""Why a node's beliefs change, what of them changes, and why an input changes nothing; the values are what the tables say."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why a belief changed: a rule of the protocol, or another source that shows it (`silver/node_views.cause`)."""

    EXTENSION = "R15"
    MASTER_REMOVED = "R24"
    ADDRESS_GOSSIPED = "R45"
    NODE_GOSSIPED = "R46"
    EPOCH_OF_HEADER = "R48"
    FLAG_OF_HEADER = "R50"
    SILENCE = "R53"
    """PFAIL, which only time tells: nothing on the wire shows it at once."""
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
    """No message of that time shows it: the owner's claim came later (R124), or the doubt was silent."""

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
    """What is believed of a node, as far as CLUSTER NODES shows it (`silver/disagreements.field`)."""

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
    """Why a candidate gets no vote (`silver/votes.reason`)."""

    NONE = ""
    """The vote is granted."""
    NOT_A_VOTER = "not a voting master"
    """Said by replicas and by masters without slots: no news of the election."""
    OLD_EPOCH = "request epoch is older than ours"
    ALREADY_VOTED = "already voted in this epoch"
    IS_A_MASTER = "candidate is a master"
    UNKNOWN_MASTER = "candidate's master is not known"
    MASTER_IS_UP = "candidate's master is up"
    TOO_SOON = "voted for this master too recently"
    GREATER_SLOT_EPOCH = "a claimed slot has a greater epoch"
    NOT_ANSWERED = "not answered"
    """Nobody saw an answer, and no rule says why."""


class ReportEnd(StrEnum):
    """Why a failure report ended (`silver/failure_reports.end`)."""

    NONE = ""
    """It holds."""
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    NODE_REMOVED = "node removed"
    LOG = "log"


class Mechanism(StrEnum):
    """How a node raised its config epoch (R79, R80, R81, R93, R97; `silver/epochs.mechanism`)."""

    ELECTION = "election"
    TAKEOVER = "takeover"
    COLLISION = "collision"
    BUMP = "bump"
    SET_CONFIG_EPOCH = "set-config-epoch"
    SLOT_IMPORT = "slot import"


class DownReason(StrEnum):
    """Why the cluster state is FAIL (R107, R108)."""

    NONE = ""
    """It is ok."""
    MINORITY = "minority"
    UNCOVERED = "uncovered slots"


class PauseMark(StrEnum):
    """How a manual failover shows: the replica asks, or the master says that it is paused (R98, R99)."""

    MFSTART = "mfstart"
    PAUSED = "paused"


class IgnoredReason(StrEnum):
    """Why an input changes nothing (`silver/ignored_inputs.reason`)."""

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
