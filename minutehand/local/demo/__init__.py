"""The demos: everything on this machine, and callbacks, or Spark's jobs, to watch."""
