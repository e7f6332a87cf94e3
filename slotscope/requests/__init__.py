"""What each command is asked: one value a command."""
