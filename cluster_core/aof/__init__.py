"""What an append-only log means: which keys its commands write, and what they leave of the key space."""
