"""Where a command goes: its keys, their slot, and what a node answers to a client that asks it."""
