"""Bytes at rest to rows."""
