"""From dumps, logs and key lists to a snapshot, to advice, to files of keys."""
