"""The stores' contract, tested over two connections: in memory and on a real Cassandra."""
