"""How a client of Kafka reaches a cluster, in the names of its library, librdkafka. Pure."""

from typing import Final

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def kafka_access(
    brokers: str,
    *,
    tls: bool,
    ca_file: str | None,
    certificate_file: str | None,
    key_file: str | None,
    sasl_mechanism: str | None,
    username: str | None,
    password: str | None,
) -> dict[str, str]:
    """The part of a consumer's or a producer's configuration that says where brokers are and who asks them. `brokers`:
    host:port, separated by commas."""
    given = {
        "ssl.ca.location": ca_file,
        "ssl.certificate.location": certificate_file,
        "ssl.key.location": key_file,
        "sasl.mechanism": sasl_mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }
    return {
        "bootstrap.servers": brokers,
        "security.protocol": ("SASL_" if sasl_mechanism else "") + ("SSL" if tls else "PLAINTEXT"),
        **{name: value for name, value in given.items() if value is not None},
    }
