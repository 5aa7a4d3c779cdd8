"""Reads and writes of frames: tables, files, charts."""
