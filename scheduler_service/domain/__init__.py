"""What schedules, clients and outcomes are: pure values and rules."""
