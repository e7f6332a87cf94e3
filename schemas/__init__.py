"""What the tables are: name, columns, key and partitioning, as values."""
