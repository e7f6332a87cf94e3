"""Checks of claims, views and layout that become findings; the simulator checks the rules of messages."""
