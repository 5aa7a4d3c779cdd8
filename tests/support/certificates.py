"""A certificate authority for one test, so that the repository holds no private key."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """Issues server certificates for addresses; `bundle` is its own certificate as a PEM file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        # Authorities of one name would be mistaken for each other.
        name = f"Authority {x509.random_serial_number():x} of one test"
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.bundle = directory / "authority.pem"
        self.bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, address: str) -> ssl.SSLContext:
        """A TLS context for a server at this IP address."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(self._directory, address=address, stem=address))
        return context

    def issue(
        self, directory: Path, *, address: str | None = None, name: str = "somebody", stem: str = "tls"
    ) -> tuple[Path, Path]:
        """Write a new certificate and its key to `stem`.crt and `stem`.key, over older ones. Valid for a server at this
        IP address; without one, for a server at `name` and for a client of that name.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, address or name)])
        named: x509.GeneralName = x509.DNSName(name) if address is None else x509.IPAddress(ip_address(address))
        certificate = (
            self._begun(subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        directory.mkdir(exist_ok=True)
        files = directory / f"{stem}.crt", directory / f"{stem}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )
