"""Login and TLS of Spark's connector to Cassandra, by the settings that every other program has.

    user, password         `words_of`: as they are now; a job asks once
    authorities, names     a truststore, PKCS12, in a directory of this program's own
    our own certificate    a keystore beside it, under a password made for it

What the connector can't do, and what is done about it:

- It checks no names, and no setting of its own makes it; its driver's (`hostname-validation`) asks for the name that
  DNS has for the address. So it is told to believe no authority, but the certificates that the cluster's servers have
  just shown us, each checked as every connection of ours is: signed, and naming the address, or `tls_server_name`.
  Where names are not to be checked (`tls_check_hostname`) it believes the authorities.
- It looks at its files once. A server that was away when the job began, or whose certificate is replaced meanwhile, is
  not believed until the next job; the job goes on with the others. Nor is a changed password.
- Left alone it speaks cipher suites of old only; so they are named.

No password may stand in a command line, where every user of the machine reads it, and whatever is configured before
Java runs is part of Java's. So all of this is made to be set afterwards; the connector reads it as it first connects.
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

    Raises FilesUnusable for what the configured files don't hold, and what `Session.open` raises: the cluster is asked
    for its certificates.
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
            # Nothing in it is secret, and whoever could change it could read a password as well.
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
    """Where a new file is now, that nobody else can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return str(path)
