"""Client certificates, judged before they are stored: a chain and a key that TLS would take.

A key is validated in full, because a node's TLS library uses what it is given without doing so. That takes 50 ms for
RSA of 2,048 bits and 0.4 s for 4,096, so callers charge for it (`cost_of_key`); elliptic curves take next to nothing.
"""

import re
from typing import Final, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import MD5, SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from scheduler_service.domain.destination_access import ClientCertificate
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import format_instant

MAX_CERTIFICATE_BYTES: Final = 32 * 1024
"""Of chain and key together."""
MAX_KEY_BYTES: Final = 4 * 1024
"""A PEM of RSA with 4,096 bits has 3,300."""
MAX_CHAIN: Final = 10
RSA_BITS: Final = range(2048, 4096 + 1)
CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
MAX_SUBJECT: Final = 1024
"""Characters of a subject that are shown."""
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,64})-----")
_PRIVATE: Final = "PRIVATE KEY"
_Key: TypeAlias = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey | Ed448PrivateKey


class CertificateFacts(NamedTuple):
    """What is shown of a certificate."""

    subject: str
    expires_at: UnixMillis


class _Wrong(Exception):
    """Says what is wrong with one of the two texts, and nothing of what it holds."""


def cost_of_key(key: str) -> float:
    """Milliseconds of CPU that judging a key may take."""
    return 50 * (len(key) / 1700) ** 3


def certificate_faults(certificate: ClientCertificate, *, now: int, at: str) -> list[FieldError]:
    """All that is wrong with a certificate whose JSON pointer is `at`."""
    size = len(certificate.chain.encode()) + len(certificate.key.encode())
    if size > MAX_CERTIFICATE_BYTES:
        return [FieldError(at, f"has {size} bytes; at most {MAX_CERTIFICATE_BYTES} are allowed")]
    faults: list[FieldError] = []
    chain: list[x509.Certificate] = []
    key: _Key | None = None
    try:
        chain = _chain_of(certificate.chain)
        faults += [FieldError(f"{at}/chain", fault) for fault in _chain_faults(chain, now)]
    except _Wrong as wrong:
        faults.append(FieldError(f"{at}/chain", str(wrong)))
    try:
        key = _key_of(certificate.key)
    except _Wrong as wrong:
        faults.append(FieldError(f"{at}/key", str(wrong)))
    if chain and key is not None and not _fits(chain[0], key):
        faults.append(FieldError(f"{at}/key", "is not the key of the chain's first certificate"))
    return faults


def certificate_facts(certificate: ClientCertificate) -> CertificateFacts:
    """For a certificate that was judged before."""
    first = x509.load_pem_x509_certificate(certificate.chain.encode())
    return CertificateFacts(first.subject.rfc4514_string()[:MAX_SUBJECT], _expiry(first))


def _chain_of(text: str) -> list[x509.Certificate]:
    blocks = _BLOCK.findall(text)
    if any(block.endswith(_PRIVATE) for block in blocks):
        raise _Wrong("holds a private key, which belongs in `key`")
    if not blocks or any(block != "CERTIFICATE" for block in blocks):
        raise _Wrong("must be certificates in PEM, and nothing else")
    if len(blocks) > MAX_CHAIN:
        raise _Wrong(f"has {len(blocks)} certificates; at most {MAX_CHAIN} are allowed")
    try:
        chain = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise _Wrong("has a certificate that can't be read") from None
    if len(chain) != len(blocks):
        raise _Wrong("has a certificate that can't be read")
    return chain


def _chain_faults(chain: list[x509.Certificate], now: int) -> list[str]:
    faults = []
    for number, certificate in enumerate(chain, start=1):
        try:
            expiry = _expiry(certificate)
            weak = isinstance(certificate.signature_hash_algorithm, MD5 | SHA1)
            certificate.subject.rfc4514_string()
        except (ValueError, UnsupportedAlgorithm):
            faults.append(f"certificate {number} can't be read")
            continue
        if expiry <= now:
            faults.append(f"certificate {number} expired at {format_instant(expiry)}")
        if weak and certificate.issuer != certificate.subject:
            faults.append(f"certificate {number} is signed by way of MD5 or SHA-1, which TLS does not take any more")
    return faults


def _expiry(certificate: x509.Certificate) -> UnixMillis:
    return UnixMillis(round(certificate.not_valid_after_utc.timestamp() * 1000))


def _key_of(text: str) -> _Key:
    if len(text.encode()) > MAX_KEY_BYTES:
        raise _Wrong(f"has more than {MAX_KEY_BYTES} bytes")
    blocks = [block for block in _BLOCK.findall(text) if block != "EC PARAMETERS"]
    if len(blocks) != 1 or not blocks[0].endswith(_PRIVATE):
        raise _Wrong("must be one private key in PEM, and nothing else")
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except TypeError:
        raise _Wrong("is encrypted: give it without a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _Wrong("can't be read") from None
    match key:
        case RSAPrivateKey(key_size=bits) if bits in RSA_BITS:
            return key
        case EllipticCurvePrivateKey(curve=curve) if curve.name in CURVES:
            return key
        case Ed25519PrivateKey() | Ed448PrivateKey():
            return key
        case _:
            raise _Wrong("must be RSA of 2048 to 4096 bits, or on a curve P-256, P-384, P-521, Ed25519 or Ed448")


def _fits(certificate: x509.Certificate, key: _Key) -> bool:
    spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        return certificate.public_key().public_bytes(*spki) == key.public_key().public_bytes(*spki)
    except (ValueError, UnsupportedAlgorithm):
        return False
