"""From captures, logs and polls of the cluster bus to its history, at once or as it comes."""
