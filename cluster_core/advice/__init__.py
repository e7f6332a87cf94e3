"""Memory savings: the memory model under other conditions, and ranked changes that never count bytes twice."""
