"""Append-only logs: keys of commands, replay to the living keys, savings of a rewrite, loss in a crash."""
