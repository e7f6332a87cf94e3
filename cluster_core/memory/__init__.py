"""What a key costs in a server's memory, from its record in a dump: `MEMORY USAGE key SAMPLES 0` without the server."""
