"""Codes of value writing: state between two buffers, answers of kernels, output formats."""

from __future__ import annotations

JSON, RESP, SIZES = range(3)
"""Formats: a line of JSON per key; commands that create the key; none, without expanding strings."""

IN_DATA, IN_SCRATCH, INTEGER, DOUBLE = range(4)
"""Forms of a part: bytes in the data or the scratch, or a number in the place itself (for a double, its bits)."""

# Answers.
GO, DONE, FULL, SCRATCH, RARE, FAULT, REFUSED, PLAIN, TAIL = range(9)

# Phases of a key.
P_BEGIN, P_STRING, P_ELEMENTS, P_ARRAY, P_PACKED, P_NODES, P_STREAM, P_ENTRIES, P_END = range(9)

# Places in the state array.
(
    FORMAT,
    BASE,  # offset in the file of the first byte of the data
    ROW,  # place in the chosen rows
    PHASE,
    OUT,  # bytes written
    WANT,  # room that the next piece needs
    BEGUN,  # output position of the current key; -1 if already flushed
    DB,  # selected by the commands so far, -1: none
    KIND,  # value type of the current key
    TYPE,  # its index in `KEY_TYPES`
    KEY_AT,  # start of its name in the batch
    KEY_BYTES,
    KEY_DB,
    EXPIRE,
    POS,  # start of its next string or node
    END,
    LEFT,  # remaining elements
    DONE_ELEMENTS,
    NODES,  # remaining nodes of a list
    EARLIEST,  # base of field expiries
    IS_EXPANDED,  # whether the current packed value was expanded
    PACKED_AT,
    PACKED_END,
    WIDTH,  # of an intset's integers
    NODE_MS,  # base id of the current stream node
    NODE_SEQ,
    FIELDS_AT,  # names of fields that the node's entries share
    FIELDS,
    FIELDS_BYTES,  # of these names
    FIRST_FORM,  # the parts of the current element: form, place, bytes
    FIRST_AT,
    FIRST_BYTES,
    SECOND_FORM,
    SECOND_AT,
    SECOND_BYTES,
    ELEMENT_PARTS,
    ONE_EXPIRE,
    AFTER,  # start of the next element
    CHUNK,  # remaining elements of the current command
    IS_ROOMY,  # whether a command may hold several elements
    FIELDS_STAY,  # whether the target server lacks field expiry
    NOT_TEXT,  # strings written as Base64
    BEGUN_NOT_TEXT,  # of these, the ones before the current key
) = range(43)
STATE_LENGTH = 43

RESERVED_BYTES = 48
"""First bytes of the scratch, reserved for the id of a stream entry as text."""
