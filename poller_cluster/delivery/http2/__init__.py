"""Attempts over HTTP/2.

`attempts` decides which attempt uses which connection, `connection` is the socket, `session` the protocol (sans-IO),
`stream` one request and its answer; `header_block` encodes headers.
"""
