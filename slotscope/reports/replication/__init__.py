"""The report on replication: values, terminal, page."""
