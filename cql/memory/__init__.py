"""The in-memory connection: what `minutehand dev` and tests have instead of Cassandra.

    stores -> named statements -> connection.py (plans) -> keys.py (which rows) -> tables.py (Cassandra's semantics)
                                  grammar.py reads the statements and the schema

The stores are the same as over Cassandra, because this is one more `cql.connection.Connection`; a store or statement
that is added works here without another line, or fails when the connection is made. `tests/contract` holds both
connections to the same answers.

What is not guaranteed: durability, time-to-live, more than one process, and answers that are lost or late.
"""
