"""A node's interface for operators: its port, its metrics, its readiness and the log of its changes of state."""
