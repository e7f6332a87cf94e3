"""SQL over the tables: views in DuckDB and Spark, and the page of tables."""
