"""What every job stands on: command line, errors, session, settings, tables, progress, packaging."""
