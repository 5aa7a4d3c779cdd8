"""Whether a server speaks CQL: the first exchange of the native protocol, without a driver, in the clear or over TLS.

Native protocol, version 4, section 4.1.3: a client may send OPTIONS before anything else and is answered SUPPORTED. A
frame's header is nine bytes: version, flags, stream (2), opcode, length of the body (4).
"""

import socket
import ssl
import struct

_HEADER = struct.Struct(">BBhBI")
_REQUEST_V4 = 0x04
_RESPONSE_V4 = 0x84
_OPTIONS = 0x05
_SUPPORTED = 0x06


def answers_cql(host: str, port: int, *, timeout_seconds: float = 2.0, tls: bool = False) -> bool:
    """Whether OPTIONS is answered SUPPORTED within the time. Never raises. The certificate is not verified: this only
    detects a server, and sends it nothing of value."""
    try:
        with _connect(host, port, timeout_seconds, tls) as connection:
            connection.sendall(_HEADER.pack(_REQUEST_V4, 0, 0, _OPTIONS, 0))
            header = _read(connection, _HEADER.size)
    except OSError:
        return False
    if len(header) < _HEADER.size:
        return False
    version, _, _, opcode, _ = _HEADER.unpack(header)
    return bool(version == _RESPONSE_V4 and opcode == _SUPPORTED)


def _connect(host: str, port: int, timeout_seconds: float, tls: bool) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=timeout_seconds)
    if not tls:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        return context.wrap_socket(connection)
    except OSError:
        connection.close()
        raise


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data
