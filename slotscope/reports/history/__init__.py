"""The report on a cluster's history: values, tables, terminal, page."""
