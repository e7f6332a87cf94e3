"""The report on a rebalancing plan: values, tables, terminal, page, execution, audit."""
