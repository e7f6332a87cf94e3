"""Options of each command, one dataclass a command."""
