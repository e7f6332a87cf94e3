"""Append-only logs: keys of commands, replay to the living keys."""
