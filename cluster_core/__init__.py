"""What Redis Cluster and Valkey do, as pure functions and state machines: no IO, no clock, no randomness of its own."""
