"""Slotscope from Python."""
