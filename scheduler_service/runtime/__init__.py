"""The only home of real time and randomness."""
