"""Attempts over HTTP/2.

`attempts` decides which attempt goes on which connection, `connection` is the socket, `session` the protocol between
bytes and bytes, `stream` one request of it and what came of its answer; `header_block` writes headers.
"""
