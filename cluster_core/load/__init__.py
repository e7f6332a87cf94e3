"""How heavy is what: tallies of keys per slot, the largest keys, heavy groups of keys, times to live."""
