"""Bytes on the network to values and back."""
