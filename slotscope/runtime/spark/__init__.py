"""Spark as jobs use it: the session, its Java and jars, what executors get."""
