"""Scenario files: their text, their forms, and how they are played."""
