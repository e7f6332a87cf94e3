"""DataFrame to DataFrame: no files, no session."""
