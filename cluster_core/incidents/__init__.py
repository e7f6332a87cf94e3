"""What happened to a cluster, told from the rows of a replay: incidents with their steps, and findings."""
