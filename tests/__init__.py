"""The test suites, from pure units to real processes."""
