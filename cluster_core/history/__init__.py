"""Evidence of every kind, reconciled: what logs, polls, metrics and packets show together of promotions, processes and service."""
