"""A whole cluster node: the gossip machine, everything that a node does by itself, and what clients may ask of it."""
