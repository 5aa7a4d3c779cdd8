"""The wake-ups of crons on a node: fires are expanded and checked before they are claimed; lost wake-ups are found."""
