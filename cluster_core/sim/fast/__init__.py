"""The simulation at speed: the rules of gossip over arrays, proven equal to the plain machine."""
