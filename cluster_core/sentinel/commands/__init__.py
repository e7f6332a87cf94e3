"""Client commands of a sentinel: SENTINEL and its subcommands."""
