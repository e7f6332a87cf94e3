"""Spark Python Data Sources and the file access below them: they open files and yield Arrow batches; parsing is the core's."""
