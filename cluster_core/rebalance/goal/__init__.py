"""Validated input of a plan: loads, placements, targets and limits."""
