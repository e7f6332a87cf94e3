"""What a plan must reach: loads, placements, targets and limits, as one validated problem."""
