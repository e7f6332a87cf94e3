"""Values of dumps: their bytes at hand, written out in parts."""
