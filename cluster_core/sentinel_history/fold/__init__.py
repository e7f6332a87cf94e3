"""What one sentinel believed, folded from the evidence of it: `state` below, one module a kind of evidence, `machine` on top."""
