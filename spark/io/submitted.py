"""Settings from spark-submit: `--conf spark.minutehand.keyspace`, and `spark.minutehand.cassandra.NAME`,
`.network.NAME`, `.clients.NAME` and `.secrets.NAME`, named as in Minutehand's configuration, lists separated by commas.

The connector's own `spark.cassandra.connection.*` say where Cassandra is. Of the table `cassandra` only the files for
login and TLS can be set: our own stores read them on every machine, as they do the key ring; the connector's TLS has
its own settings.
"""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from pyspark import SparkConf

from cql.settings import StorageSettings
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.usecases.secret_encryption import SecretSettings

_NETWORK, _CLIENTS = "spark.minutehand.network.", "spark.minutehand.clients."
_SECRETS = "spark.minutehand.secrets."
_CASSANDRA = "spark.minutehand.cassandra."
_LOGIN = {"username": "spark.cassandra.auth.username", "password": "spark.cassandra.auth.password"}
_TLS = "spark.cassandra.connection.ssl.enabled"
_FLAG = "tls_check_hostname"
_FILES = {"username_file", "password_file", "tls_ca_file", "tls_cert_file", "tls_key_file"}

_TIMEOUT_SECONDS = 10.0


def submitted_storage(conf: SparkConf) -> StorageSettings:
    """Raises ValueError for settings that are invalid, or contradict each other."""
    texts = {name.removeprefix(_CASSANDRA): text for name, text in conf.getAll() if name.startswith(_CASSANDRA)}
    _check_names(_CASSANDRA, texts.keys(), {*_FILES, _FLAG, "tls_server_name"})
    given: dict[str, Any] = {**texts}
    if (flag := texts.get(_FLAG)) is not None:
        given[_FLAG] = _flag(f"{_CASSANDRA}{_FLAG}", flag)
    if ("tls_ca_file" in given) != ((conf.get(_TLS) or "false").lower() == "true"):
        raise ValueError(f"{_CASSANDRA}tls_ca_file and {_TLS} go together: our stores and Spark's connector speak TLS")
    for name, connectors in _LOGIN.items():
        if f"{name}_file" not in given:
            given[name] = conf.get(connectors)
    return StorageSettings(
        contact_points=tuple((conf.get("spark.cassandra.connection.host") or "127.0.0.1").split(",")),
        port=int(conf.get("spark.cassandra.connection.port") or 9042),
        local_dc=conf.get("spark.cassandra.connection.localDC") or "datacenter1",
        keyspace=conf.get("spark.minutehand.keyspace") or "minutehand",
        **given,
    )


def submitted_policy(conf: SparkConf) -> NetworkPolicy:
    """Raises ValueError for invalid settings."""
    given = {name.removeprefix(_NETWORK): _parts(text) for name, text in conf.getAll() if name.startswith(_NETWORK)}
    _check_names(_NETWORK, given.keys(), {"allow", "deny", "allow_ports", "schemes"})
    ports = given.get("allow_ports")
    return NetworkPolicy.parse(
        allow=given.get("allow", ()),
        deny=given.get("deny", ()),
        allow_ports=None if ports is None else map(int, ports),
        schemes=given.get("schemes", ("http", "https")),
    )


def submitted_secrets(conf: SparkConf) -> SecretSettings:
    """Raises ValueError for invalid settings."""
    given = {name.removeprefix(_SECRETS): text for name, text in conf.getAll() if name.startswith(_SECRETS)}
    _check_names(_SECRETS, given.keys(), {one.name for one in fields(SecretSettings)})
    encrypts = given.get("encrypt_headers", "true")
    return SecretSettings(
        key_ring_file=given.get("key_ring_file"), encrypt_headers=_flag(f"{_SECRETS}encrypt_headers", encrypts)
    )


def submitted_bounds(conf: SparkConf) -> ClientBounds:
    """Raises ValueError for settings that are invalid, or out of range."""
    given = {name.removeprefix(_CLIENTS): text for name, text in conf.getAll() if name.startswith(_CLIENTS)}
    kinds: dict[str, Any] = {one.name: type(one.default) for one in fields(ClientBounds)}
    _check_names(_CLIENTS, given.keys(), kinds.keys())
    return ClientBounds(**{name: kinds[name](text) for name, text in given.items()})


def _flag(name: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{name} is {text!r}; write true or false")
    return text == "true"


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check_names(prefix: str, given: Collection[str], known: Collection[str]) -> None:
    for name in sorted(set(given) - set(known)):
        raise ValueError(f"{prefix}{name} is no setting; there are {', '.join(sorted(known))}")


def patient(storage: StorageSettings) -> StorageSettings:
    """The same with a longer timeout: jobs can wait longer for an answer than servers."""
    return replace(storage, request_timeout_seconds=max(_TIMEOUT_SECONDS, storage.request_timeout_seconds))
