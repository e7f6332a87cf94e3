"""Client commands of a node: CLUSTER and its subcommands."""
