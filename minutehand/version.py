"""The version of what is installed: the one place where it is written."""

VERSION = "0.1.0"
