"""Clients of live servers: queries, slot moves, audits, journal."""
