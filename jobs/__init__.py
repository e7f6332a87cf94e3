"""Commands: one module each, with its options, `run` for notebooks and tests, and `command` for a shell and spark-submit."""
