"""Reconciliation of logs, polls, metrics and packets: promotions, processes, service."""
