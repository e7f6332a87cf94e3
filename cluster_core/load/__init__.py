"""Load figures: keys per slot, largest keys, heavy groups, expiry, access, attribution of dumps."""
