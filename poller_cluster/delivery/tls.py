"""TLS of one connection as a transformation of bytes. It has no socket, so that the owner knows what has left."""

import ssl
from typing import Final

ALPN_HTTP2: Final = "h2"
_READ = 65_536
_PIECE: Final = 65_536


def client_context(ca_file: str | None) -> ssl.SSLContext:
    """Verifies certificates and names, requires TLS 1.2, offers HTTP/2 first. Raises OSError and ssl.SSLError for a
    bundle that can't be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Python's own cipher list refuses receivers that OpenSSL's security level admits. With PARTIAL_CHAIN a bundle may
    # hold just an intermediate authority or a receiver's own certificate.
    context.set_ciphers("DEFAULT")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols([ALPN_HTTP2, "http/1.1"])
    return context


class Tls:
    """Feed received bytes to `shake_hands` until it returns True; then `seal` outgoing and `open` incoming bytes.

    After `shake_hands` and `open`, send what `take` returns: our part of the handshake, alerts, key updates.
    """

    __slots__ = ("_incoming", "_object", "_outgoing", "ended")

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        """Raises ValueError if `server_name` can't be a server's name."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.ended = False

    def shake_hands(self, data: bytes) -> bool:
        """Whether the handshake is complete. Raises ssl.SSLError; even then `take` may have an alert to send."""
        if data:
            self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    @property
    def speaks_http2(self) -> bool:
        """Whether the receiver chose `h2` in the handshake."""
        return self._object.selected_alpn_protocol() == ALPN_HTTP2

    def take(self) -> bytes:
        return self._outgoing.read() if self._outgoing.pending else b""

    def seal(self, data: bytes) -> bytes:
        # In pieces, because a memory BIO never shrinks: its buffer would stay as large as the largest request.
        left, sealed = memoryview(data), []
        while left:
            left = left[self._object.write(left[:_PIECE]) :]
            sealed.append(self._outgoing.read())
        return sealed[0] if len(sealed) == 1 else b"".join(sealed)

    def open(self, data: bytes) -> bytes:
        """Decrypt; b"" for records about keys and tickets only. Sets `ended` when the receiver has closed its side.
        Raises ssl.SSLError."""
        if data:
            self._incoming.write(data)
        read, incoming, opened = self._object.read, self._incoming, b""
        try:
            while True:
                piece = read(_READ)
                if not piece:
                    self.ended = True
                    return opened
                opened = opened + piece if opened else piece
                if not incoming.pending and not self._object.pending():
                    return opened
        except ssl.SSLWantReadError:
            return opened
        except ssl.SSLError:
            # What was decrypted before the fault is authentic and may hold the status: the fault only ends it.
            if opened:
                self.ended = True
                return opened
            raise
