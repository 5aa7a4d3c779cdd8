"""One contract, two connections: what the stores promise holds in memory and on a real Cassandra alike."""
