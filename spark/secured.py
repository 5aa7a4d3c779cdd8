"""Login and TLS of Spark's connector to Cassandra, by the settings that every other program has.

    user, password         `words_of`: as they are now; a job reads them once
    authorities, names     a truststore, PKCS12, in this program's private directory
    our own certificate    a keystore beside it, under a password made for it

Limits of the connector, and what is done about them:

- It does not check names, and none of its settings makes it; its driver's setting (`hostname-validation`) compares the
  name that DNS has for the address. So the truststore holds no authority but the certificates that the cluster's
  servers have just presented, each checked as on all our connections: it is signed, and it names the address or
  `tls_server_name`. Where names are not to be checked (`tls_check_hostname`) the truststore holds the authorities.
- It reads its files once. A server that was away when the job began, or whose certificate is replaced meanwhile, is not
  trusted until the next job; the job goes on with the others. A changed password is not noticed either.
- By default it offers old cipher suites only, so current ones are named.

A password must not be in a command line, which every user of the machine can read, and settings made before Java starts
become part of Java's command line. So these settings are made afterwards; the connector reads them when it first
connects.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from cql.login import words_of
from cql.node_certificates import node_certificates
from cql.settings import StorageSettings
from scheduler_service.runtime.files import FilesUnusable
from scheduler_service.runtime.randomness import SystemRandomness

T = TypeVar("T")

_AUTH = "spark.cassandra.auth"
_SSL = "spark.cassandra.connection.ssl"
_SUITES = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
)


def login(storage: StorageSettings) -> dict[str, str]:
    """The connector's settings; none where the cluster asks for no password. Raises FilesUnusable."""
    words = words_of(storage)
    return {} if words is None else {f"{_AUTH}.username": words[0], f"{_AUTH}.password": words[1]}


@contextmanager
def tls(storage: StorageSettings) -> Iterator[dict[str, str]]:
    """The connector's settings, for a Java on this machine, and the files that they name until the end; none where the
    cluster speaks no TLS.

    Raises FilesUnusable for invalid files, and what `Session.open` raises, because the cluster is asked for its
    certificates.
    """
    if storage.tls_ca_file is None:
        yield {}
        return
    with TemporaryDirectory(prefix="minutehand-spark-") as made:
        directory = Path(made)
        trusted = pkcs12.serialize_java_truststore(
            [
                pkcs12.PKCS12Certificate(one, f"trusted-{place}".encode())
                for place, one in enumerate(_believed(storage))
            ],
            # It holds no secret, and a process that could change it could read the password as well.
            NoEncryption(),
        )
        conf = {
            f"{_SSL}.enabled": "true",
            f"{_SSL}.enabledAlgorithms": ",".join(_SUITES),
            f"{_SSL}.trustStore.path": _kept(directory / "trusted.p12", trusted),
        }
        if storage.tls_cert_file is not None and storage.tls_key_file is not None:
            password = SystemRandomness().secret_bytes(32).hex()
            own = _own(storage.tls_cert_file, storage.tls_key_file, password)
            conf |= {
                f"{_SSL}.clientAuth.enabled": "true",
                f"{_SSL}.keyStore.path": _kept(directory / "own.p12", own),
                f"{_SSL}.keyStore.password": password,
            }
        yield conf


def _believed(storage: StorageSettings) -> list[x509.Certificate]:
    if storage.tls_check_hostname:
        shown = asyncio.run(node_certificates(storage))
        return [x509.load_der_x509_certificate(one) for one in dict.fromkeys(shown)]
    assert storage.tls_ca_file is not None
    return _read(storage.tls_ca_file, x509.load_pem_x509_certificates, "the authorities' certificates in PEM")


def _own(cert_file: str, key_file: str, password: str) -> bytes:
    certificate, *chain = _read(cert_file, x509.load_pem_x509_certificates, "a certificate in PEM")
    key = _read(key_file, lambda text: load_pem_private_key(text, None), "a certificate's key in PEM")
    return pkcs12.serialize_key_and_certificates(
        b"own",
        key,  # type: ignore[arg-type]
        certificate,
        chain,
        BestAvailableEncryption(password.encode()),
    )


def _read(file: str, load: Callable[[bytes], T], wanted: str) -> T:
    try:
        return load(Path(file).read_bytes())
    except OSError as error:
        raise FilesUnusable(f"{file} can't be read ({(error.strerror or '').lower()})") from None
    except (TypeError, ValueError):
        raise FilesUnusable(f"{file} does not hold {wanted}") from None


def _kept(path: Path, content: bytes) -> str:
    """Write a new file that only this user can read; answers its path."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)
