"""Jobs over the same tables, for work that is too large for one API process.

    jobs         thin: which days, what is read, which transform, what is written
    transforms   pure: frame -> frame, each closing with an explicit select, so that its columns are listed in one place
    io           the tables by their partition keys, reports and Parquet
    session      how a program reaches Spark and Cassandra

How tables are read. A scan of a table costs what the table holds; a job must cost what its window holds. So every read
begins with keys that are known without reading: the clients, and the hours of the window. Joined with
`occupied_minutes` they give the partitions that have rows; joined with `schedules` these give the rows. Each join is
the connector's direct join: one read by partition key for each key, executed by Cassandra. `io.tables` refuses a plan
that would scan instead.

Other rooms. The front door starts jobs; jobs take ids, states and bounds from `scheduler_service.domain`, so that each
has one definition.
"""
