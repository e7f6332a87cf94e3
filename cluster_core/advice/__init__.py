"""What would save memory: the memory model under other conditions, changes ranked by what they save, none of them counted twice."""
