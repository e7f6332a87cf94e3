"""The tables for whoever asks with SQL: views for the questions people ask, in Spark and in DuckDB."""
