"""RDB dumps: as rows, as units of work, cut into parts, checked value by value."""
