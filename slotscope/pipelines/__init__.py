"""Who calls what, in which order: from a request's inputs to its tables."""
