"""Where a walk over an append-only log stands: its answers, its phases, and the places of its state array."""

from __future__ import annotations

# Answers.
NEED, BATCH, GROW, GROW_KEYS, NAME, PLAIN, FAULT = range(7)

# Phases.
P_START, P_WORD, P_SKIP = range(3)

# Places in the state array.
(
    PHASE,
    POS,  # where the next atom begins, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes from POS on that are needed
    SKIP,  # bytes of the word that are not passed yet, with its CRLF
    ARGC,
    WORD,
    CODE,
    BEGIN,  # offset of the command
    ROWS,  # rows of whole commands
    ROW,  # rows with those of the command that is being read
    COMMANDS,
    KEY_POS,
    SHARE_AT,  # offset from which bytes belong to the key met last
    DB,
    SELECTED,
    TIME,
    MULTI_AT,
    VALID_END,
    FAULT_CODE,
    FAULT_AT,
    FAULT_VALUE,
    IS_FULL,  # no further names are listed
    LONG_KEY,  # length of the first key of the command that is too long to be one, 0 for none
    RANGES,  # the key ranges of the command begin here: two, of `RANGE_CELLS` each
) = range(26)

FIRST, LAST, STEP, NUMBER, AFTER_NUMBER, RANGE_CELLS = range(6)
"""A range of keys: words *first* to *last* by *step*, `NONE` for none; or the word that says how many there are, and where they begin."""
RANGE_A, RANGE_B, STATE_LENGTH = range(RANGES, RANGES + 3 * RANGE_CELLS, RANGE_CELLS)
NONE = -1
