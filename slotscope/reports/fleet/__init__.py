"""All clusters of a root side by side, the worst first."""
