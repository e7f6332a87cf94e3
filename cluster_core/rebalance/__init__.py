"""Which slots should move where: the problem, the plan, its proof, its order and its commands, as plain values."""
