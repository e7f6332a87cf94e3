"""Base of all jobs: command line, errors, Spark session, settings, storage, progress."""
