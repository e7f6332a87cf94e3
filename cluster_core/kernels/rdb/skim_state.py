"""Names of the numbers that an RDB skim keeps between two windows, and of what its kernel answers."""

from __future__ import annotations

# Answers.
NEED, BATCH, KEYS, EVENT, END, FAULT, SCRATCH, RECORD, GO = range(9)

# Events.
EVENT_AUX, EVENT_SELECTDB, EVENT_RESIZEDB, EVENT_TEMPLATE = range(1, 5)

# Phases: of a key and its value, then of records that are no keys.
(
    P_RECORD,
    P_EMIT,
    P_ELEMENTS,
    P_COUNT,
    P_BLOB,
    P_BLOB_END,
    P_QUICK,
    P_ARRAY,
    P_STREAM_NODES,
    P_STREAM_META,
    P_STREAM_GROUP,
    P_STREAM_GROUP_META,
    P_STREAM_PEL,
    P_STREAM_CONSUMERS,
    P_STREAM_CONSUMER,
    P_STREAM_CONSUMER_META,
    P_STREAM_CONSUMER_PEL,
    P_STREAM_HANDED_BACK,
    P_PRODUCERS,
    P_MODULE,
    P_KEY_META,
    P_FUNCTION_PRE_GA,
    P_IMPORT,
    P_IMPORT_RANGES,
    P_TEMPLATE,
) = range(25)

# Places in the state array.
(
    PHASE,
    POS,  # where the next atom begins, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes that the next atom needs, a lower bound
    SKIP,  # bytes to pass over
    ROW,  # rows in the batch
    KEY_POS,  # bytes in the batch's key buffer
    DB,
    REC,  # offset in the file of the record at hand
    EXPIRE,
    IDLE,
    FREQ,
    TYPE_BYTE,
    KEY_LENGTH,
    SLOT,
    TAG_START,
    TAG_LENGTH,
    ELEMENTS,
    ENCODING,
    LEFT,
    MODE,
    UNITS,  # packed entries counted so far
    NODES,  # of a quicklist
    LZF_LEFT,
    LZF_MADE,
    LZF_RAW,
    LZF_LITERALS,
    LZF_AT,
    LZF_SIZE,
    WALK_LEFT,
    WALK_FORM,
    WALK_COUNT,
    WALK_SIDE,
    WALK_AT,
    GROUPS,
    PEL,
    CONSUMERS,
    STEP,
    AUX_MODULE,  # what the module opcodes belong to: a value (0), an aux field (1), metadata of a key (2)
    FAULT_CODE,
    FAULT_AT,
    FAULT_A,
    FAULT_B,
    EVENT_KIND,
    EVENT_A,
    EVENT_B,
    VALKEY,  # dialect
    LISTPACK_LISTS,
    EMBSTR_RULE,
    FUNCTIONS,
    MODULE_AUXES,
    # What the memory model has met of the value at hand.
    SIZE_KNOWN,
    SIZE_BYTES,
    SIZE_UNITS,  # what chance is in, see `cluster_core.memory.tables`
    TEXT,  # bytes of the string that was passed last
    TEXT_LZF,  # its compressed bytes, or -1
    FIELD,
    FIELD_VALUE,
    FIELD_EXPIRES,
    MARKS,  # of the elements, see `memory_sizes.whole_size`
    LIST_COMPRESSED,  # bytes of a list whose compressed nodes are so in memory
    LIST_ENDS,  # what is known of its ends: see `_list_node`
    STREAM_NODE,  # bytes of the listpack that came last
    TREE_IDS,
    TREE_NODES,
    TREE_BYTES,
    TREE_HIGH,  # the last id
    TREE_LOW,
    META_AT,  # offset in the file of the record whose metadata was passed, plus 1; 0 if none was
    BY_RECORD,  # whether to answer RECORD behind each record that is no key
    OTHER_OP,  # of such a record, 0 if none was passed; its first byte's offset, its slot info
    OTHER_BEGIN,
    OTHER_SLOT,
    OTHER_KEYS,
    TREE_CHILDREN,  # of the open branch at each depth, 16 places
) = range(76)
STATE_LENGTH = 96
