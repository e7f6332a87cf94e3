"""Append-only files: the manifest of a multi-part log, and the commands in its files."""
