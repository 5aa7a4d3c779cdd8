"""What several suites share: fakes, the in-memory store, and the real Cassandra they start."""
