"""The wake-ups of crons on a node: fires are expanded, checked before they are claimed, and never forgotten."""
