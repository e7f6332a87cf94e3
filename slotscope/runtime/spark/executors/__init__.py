"""What executors of a cluster need of the driver: compiled code, and a question whether they can run tasks."""
