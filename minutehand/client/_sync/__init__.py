"""The synchronous client. `make sdk` generates all but `bulk` and `connections` from the modules of `_async`."""
