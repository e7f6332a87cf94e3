"""Spark for jobs: session, Java, jars, code on executors."""
