"""A node of the core as a member of a real cluster: sockets, time and files around the unchanged machine."""
