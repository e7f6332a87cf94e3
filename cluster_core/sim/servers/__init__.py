"""What a simulated server has besides its node: data, replication, commands on both, slots that it moves by itself."""
