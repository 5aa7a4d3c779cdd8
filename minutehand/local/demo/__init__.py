"""The demos: a whole cluster on this machine, and callbacks or Spark jobs to watch."""
