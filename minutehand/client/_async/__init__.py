"""The client for asynchronous programs. `_sync` is made of it."""
