"""When the certificates of a process expire, as its files say; asked when Prometheus asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509

from scheduler_service.runtime.metrics import Kind, Metric


@dataclass(frozen=True, slots=True)
class Certificates:
    """`files`: PEM files by the setting that names them; settings without a file are None."""

    files: Mapping[str, str | None]

    def expiries(self) -> Mapping[str, float]:
        """Unix seconds by setting. Files that can't be read are left out: the log has said so."""
        found: dict[str, float] = {}
        for setting, file in self.files.items():
            if file is not None and (expiry := _expiry(file)) is not None:
                found[setting] = expiry
        return found


def _expiry(file: str) -> float | None:
    """Of the first certificate that expires: the intermediate ones count too."""
    try:
        return min(
            one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(Path(file).read_bytes())
        )
    except (OSError, ValueError):
        return None


METRICS: Final[tuple[Metric[Certificates], ...]] = (
    Metric(
        "minutehand_certificate_expiry_timestamp_seconds",
        Kind.GAUGE,
        "Unix time at which a certificate that this process shows expires, by the setting that names its file.",
        Certificates.expiries,
        labels=("setting",),
    ),
)
"""Without values where no certificate is configured."""
