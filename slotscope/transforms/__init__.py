"""Transforms from DataFrame or Arrow table to table; no files, no session."""
