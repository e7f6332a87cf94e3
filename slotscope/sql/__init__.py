"""SQL over the tables: views in DuckDB, and the page of tables."""
