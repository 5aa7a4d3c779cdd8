"""What several suites share: fakes, and the real Cassandra they start."""
