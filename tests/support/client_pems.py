"""Client certificates as PEM texts, with whatever is to be wrong with them."""

import base64
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

SOON = datetime(2027, 11, 21, 9, 30, tzinfo=UTC)


def pem_key(key: CertificateIssuerPrivateKeyTypes | dsa.DSAPrivateKey, *, passphrase: bytes | None = None) -> str:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def pem_certificate(
    key: CertificateIssuerPrivateKeyTypes,
    *,
    name: str = "shop",
    expires: datetime = SOON,
    issuer: str | None = None,
) -> str:
    """Signed by its own key, whatever it says of its issuer."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    by = subject if issuer is None else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)])
    without_hash = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(expires - timedelta(days=800))
        .not_valid_after(expires)
        .sign(key, None if without_hash else hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


def pair(name: str = "shop", *, expires: datetime = SOON) -> dict[str, str]:
    """A chain and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    return {"chain": pem_certificate(key, name=name, expires=expires), "key": pem_key(key)}


def said_to_be_by_sha1(certificate: str) -> str:
    """A certificate of an RSA key that says it is signed by way of SHA-1, which nothing here can sign any more."""
    begin, *lines, end = certificate.strip().splitlines()
    der = base64.b64decode("".join(lines))
    by_sha256, by_sha1 = (bytes.fromhex(f"06092a864886f70d0101{last}") for last in ("0b", "05"))
    assert der.count(by_sha256) == 2
    return f"{begin}\n{base64.encodebytes(der.replace(by_sha256, by_sha1)).decode()}{end}\n"


def rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, bits)
