"""How a client of Kafka reaches a cluster and logs in: the settings that all of them share, and their one reader."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_BROKER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):[0-9]{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """Where a cluster is, and who asks it. Raises ValueError for contradictions, with all of them."""

    brokers: tuple[str, ...] = ()
    """Some brokers of the cluster, as host:port; the others are found through them."""
    tls: bool = False
    """Whether connections to brokers are encrypted, and their certificates verified."""
    tls_ca_file: str | None = None
    """PEM file of the authorities that brokers' certificates are verified against. None: the system's."""
    tls_cert_file: str | None = None
    """PEM file of the certificate to show to brokers that ask for one; give it with its key."""
    tls_key_file: str | None = None
    """PEM file of that certificate's private key, not encrypted."""
    sasl_mechanism: str | None = None
    """How to log in at brokers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; give it with both files. None: no log-in."""
    username_file: str | None = None
    """File that holds the name to log in with."""
    password_file: str | None = None
    """File that holds the password."""

    def __post_init__(self) -> None:
        if faults := self.access_faults():
            raise ValueError("; ".join(faults))

    def access_faults(self) -> list[str]:
        """What contradicts itself, one clause each. No file is read."""
        faults = []
        if any(_BROKER.fullmatch(broker) is None for broker in self.brokers):
            faults.append("brokers: write each as host:port")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            faults.append("tls_cert_file and tls_key_file go together: give both or neither")
        if not self.tls and (self.tls_ca_file, self.tls_cert_file, self.tls_key_file) != (None, None, None):
            faults.append("tls_ca_file, tls_cert_file and tls_key_file are for tls = true")
        if self.sasl_mechanism is not None and self.sasl_mechanism not in MECHANISMS:
            faults.append(f"sasl_mechanism: use one of {', '.join(MECHANISMS)}")
        given = [one is not None for one in (self.sasl_mechanism, self.username_file, self.password_file)]
        if any(given) and not all(given):
            faults.append("sasl_mechanism, username_file and password_file go together: give all or none")
        return faults

    def read_access(self) -> dict[str, str]:
        """The part of a consumer's or a producer's configuration that says where brokers are and who asks them, in the
        names of their library, librdkafka. Reads the files. Raises ValueError with all faults."""
        faults: list[str] = []
        if not self.brokers:
            faults.append("brokers: name at least one, as host:port")
        files = {
            "ssl.ca.location": ("tls_ca_file", self.tls_ca_file),
            "ssl.certificate.location": ("tls_cert_file", self.tls_cert_file),
            "ssl.key.location": ("tls_key_file", self.tls_key_file),
        }
        told: dict[str, str] = {}
        for name, (setting, file) in files.items():
            # Read to be refused with its name: the library reads it itself, and says less.
            if file is not None and _text_of(setting, file, faults) is not None:
                told[name] = file
        if self.sasl_mechanism is not None:
            told["sasl.mechanism"] = self.sasl_mechanism
        secrets = {
            "sasl.username": ("username_file", self.username_file),
            "sasl.password": ("password_file", self.password_file),
        }
        for name, (setting, file) in secrets.items():
            if file is not None and (text := _text_of(setting, file, faults)) is not None:
                told[name] = text
        if faults:
            raise ValueError("; ".join(faults))
        protocol = ("SASL_" if self.sasl_mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")
        return {"bootstrap.servers": ",".join(self.brokers), "security.protocol": protocol, **told}


def _text_of(setting: str, file: str, faults: list[str]) -> str | None:
    """The content of a file, stripped; None: it can't be used, and `faults` says why."""
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        faults.append(f"{setting} names {file}, which can't be read ({why})")
        return None
    if not text:
        faults.append(f"{setting} names {file}, which is empty")
        return None
    return text
