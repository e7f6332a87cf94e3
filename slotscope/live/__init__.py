"""Live members: a node or sentinel of the core with sockets, time and files."""
