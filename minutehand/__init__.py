"""The front door: the SDK, the command line, and the wiring of every other room."""
