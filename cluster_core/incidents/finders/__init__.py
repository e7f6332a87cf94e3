"""Finders, one per kind of incident: failures, failovers, slot moves, memberships, troubles."""
