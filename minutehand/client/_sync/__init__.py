"""The client for plain programs: `make sdk` writes all but `bulk` and `connections`, of the same names in `_async`."""
