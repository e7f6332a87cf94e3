"""Which slot a key belongs to, sets of slots, and who owns which slot."""
