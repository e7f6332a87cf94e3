"""Keys in bulk: batches, filters, and sums by slot, group and use."""
