"""What a look at a live cluster found: figures, and how they are shown."""
