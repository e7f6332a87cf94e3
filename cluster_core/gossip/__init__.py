"""What one cluster node believes, driven by messages and time: a sans-IO machine and the decisions beside it."""
