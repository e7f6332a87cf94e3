"""Merge logs, polls, metrics and packets into promotions, processes and service intervals."""
