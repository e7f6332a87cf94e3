"""What should move: starts, walks and improvements over arrays, compiled."""
