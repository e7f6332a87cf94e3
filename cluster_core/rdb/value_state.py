"""Names of the numbers that the writing of values keeps between two buffers, of what its kernel answers, and of the formats."""

from __future__ import annotations

JSON, RESP, SIZES = range(3)
"""Formats: a line of JSON a key; commands that make the key; nothing, and compressed strings stay so."""

IN_DATA, IN_SCRATCH, INTEGER, DOUBLE = range(4)
"""Forms of a word: bytes of the data or of the scratch, or a number, whose value (of a double, the bits) is in the place."""

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
    BEGUN,  # where in the output the key at hand begins; -1 if that is written already
    DB,  # that the commands so far have selected, -1: none
    KIND,  # value type of the key at hand
    TYPE,  # what it is: its index in `KEY_TYPES`
    KEY_AT,  # where its name begins in the batch
    KEY_BYTES,
    KEY_DB,
    EXPIRE,
    POS,  # where its next string or node begins
    END,
    LEFT,  # elements still to come
    DONE_ELEMENTS,
    NODES,  # of a list, still to come
    EARLIEST,  # expiry that those of fields are counted from
    IS_EXPANDED,  # whether the packed value at hand was expanded
    PACKED_AT,
    PACKED_END,
    WIDTH,  # of an intset's integers
    NODE_MS,  # id that those of a stream's node are counted from
    NODE_SEQ,
    FIELDS_AT,  # names of fields that the node's entries share
    FIELDS,
    FIELDS_BYTES,  # of these names
    FIRST_FORM,  # the words of the element at hand: form, place, bytes
    FIRST_AT,
    FIRST_BYTES,
    SECOND_FORM,
    SECOND_AT,
    SECOND_BYTES,
    WORDS_OF_ONE,
    ONE_EXPIRE,
    AFTER,  # where the next element begins
    CHUNK,  # elements still to come of the command at hand
    IS_ROOMY,  # whether a command may hold several elements
    FIELDS_STAY,  # whether the server that is written for has no fields that expire
    NOT_TEXT,  # strings that were written as Base64
    BEGUN_NOT_TEXT,  # of those, the ones before the key at hand
) = range(43)
STATE_LENGTH = 43

RESERVED_BYTES = 48
"""The first bytes of the scratch, which hold the id of an entry of a stream as text."""
