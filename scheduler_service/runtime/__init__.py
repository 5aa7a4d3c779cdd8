"""Real time, randomness, tasks, logs and metrics; no other package may use their sources directly."""
