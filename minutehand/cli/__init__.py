"""The `minutehand` command: one module a noun. Commands use `minutehand.client` or start processes.

Every error is one clear sentence on standard error and exit code 1; wrong usage is exit code 2. With `--json`, standard
output is one JSON document and nothing else.
"""
