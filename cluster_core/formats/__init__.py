"""Readers and writers of files: RDB, append-only logs, captures, server logs, landings."""
