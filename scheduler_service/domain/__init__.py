"""Pure values and rules for schedules, clients and outcomes, and the ports that stores and senders implement."""
