"""Storage of tables: places, commits, runs, snapshot names."""
