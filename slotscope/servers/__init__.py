"""What talks to the servers of a live cluster: questions, moves, audits and the journal of moves."""
