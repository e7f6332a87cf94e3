"""Plans as they lie in the tables, and what a snapshot shows of them."""
