"""What clients of a sentinel hear: SENTINEL and its subcommands, options, reports."""
