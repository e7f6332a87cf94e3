"""From loads to a plan, and from a plan to its moves and their audit."""
