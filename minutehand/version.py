"""The version of what is installed."""

from importlib.metadata import version

VERSION = version("minutehand")
