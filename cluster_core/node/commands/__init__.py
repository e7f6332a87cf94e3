"""What clients hear: CLUSTER and its subcommands, and how a node describes its cluster."""
