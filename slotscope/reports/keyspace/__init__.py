"""The key-space report: values, tables, terminal, page, comparison."""
