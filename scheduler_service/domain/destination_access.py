"""How calls are made, beyond URL and headers: with a client certificate, through a forward proxy. Pure.

None shows its values in a representation, so no log or traceback says a secret.
"""

import msgspec


class Unsaid:
    """A struct whose representation shows no values."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class ClientCertificate(Unsaid, msgspec.Struct, frozen=True, kw_only=True):
    """PEM texts: the chain, the client's own certificate first, and its private key, which is not encrypted."""

    chain: str
    key: str


class ForwardProxy(Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`url` is http://host:port, as `NetworkPolicy.check_proxy` admits it. Credentials: both, or none."""

    url: str
    username: str | None = None
    password: str | None = None
