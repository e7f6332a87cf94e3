"""Definitions of tables: name, columns, key and partitioning."""
