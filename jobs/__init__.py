"""Entry points: one module a question, each with `run` (for tests and notebooks) and `main` (for a shell and
spark-submit).
"""
