"""What a node shows an operator: its own port, its metrics, its readiness and its changes of state."""
