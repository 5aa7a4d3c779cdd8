"""Configuration: from environment and TOML to the settings of every room. Nothing else reads the environment.

    MINUTEHAND_API_PORT=8081          over
    [api]                             over   the fields' defaults
    port = 8080

Every table of the file is a dataclass of the room that it configures, so a setting is documented and checked where it
is used; `minutehand config` prints them all. A variable is named after table and field. Secrets may come from files:
for `admin_key` write `admin_key_file` (or `MINUTEHAND_API_ADMIN_KEY_FILE`). Unknown keys, wrong types and
contradictions are refused, all at once, one sentence each.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cql.settings import StorageSettings
from membership.errors import SettingsInvalid
from membership.settings import MembershipSettings
from minutehand.config_values import (
    FILE_SUFFIX,
    PREFIX,
    ConfigurationInvalid,
    Fault,
    Table,
    read_environment,
    read_table,
)
from minutehand.ingest.settings import IngestSettings
from minutehand.processes.health import HealthSettings
from minutehand.tracing.settings import TraceSettings
from poller_cluster.delivery.settings import DeliverySettings, TargetSettings
from poller_cluster.ops.server import OpsSettings
from poller_cluster.settings import (
    BackgroundSettings,
    MinuteSettings,
    NodeSettings,
    ReceiverSettings,
    ReconciliationSettings,
)
from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.goscheduler.settings import GoSchedulerSettings
from scheduler_service.api.settings import ApiSettings
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.domain.acknowledgements import AckSettings
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.network import DEFAULT_PORTS, NetworkPolicy
from scheduler_service.hints import HintSettings
from scheduler_service.runtime.certificates import Certificates
from scheduler_service.runtime.file_secrets import FileSecret
from scheduler_service.runtime.logging import LoggingSettings
from scheduler_service.usecases.schedule_writer import LATE_AFTER_MS
from scheduler_service.usecases.secret_encryption import SecretSettings

FILE_VARIABLE = f"{PREFIX}CONFIG"
MIN_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the processes of one cluster must know of each other. Raises ValueError for a token that is too weak, and
    files that don't go together."""

    token: str | None = field(default=None, repr=False)
    """Secret shared by all APIs and nodes, at least 16 characters: nodes accept hints and requests only with it. It may
    be several, separated by white space: all are accepted, the first is sent. A file of it is read again once it has
    changed, so a token is replaced without a restart: add the new one behind the old, move it to the front, and remove
    the old one, each step in all processes before the next."""
    node_id: str | None = None
    """Name of this node among the members; it stays the same after a restart and differs from all others'. None:
    derived from the host name, which suits one `minutehand node` a host. With several processes under one command,
    NAME-0 is the first."""
    tls_ca_file: str | None = None
    """PEM file of the authorities that sign the nodes' certificates (`ops.tls_cert_file`), by which APIs and nodes
    check the nodes that they ask. This file and those below are read again once they have changed. None: the system's
    authorities."""
    tls_cert_file: str | None = None
    """PEM file of the certificate that APIs and nodes present to nodes, if nodes require one."""
    tls_key_file: str | None = None
    """PEM file of that certificate's key."""
    tls_server_name: str | None = None
    """Name that every node's certificate must contain instead of its address."""

    def __post_init__(self) -> None:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: give both or neither")
        token = self.token
        words = [] if token is None else token.split() or [""]
        if any(len(one) < MIN_TOKEN or not (one.isascii() and one.isprintable()) for one in words):
            raise ValueError(
                f"token: use at least {MIN_TOKEN} printable ASCII characters, "
                "such as the output of: openssl rand -hex 24"
            )
        if self.node_id is not None and not self.node_id:
            raise ValueError("node_id: leave it out rather than empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """Where callbacks may go. By default every address that is not plainly public is refused. APIs and nodes must have
    the same policy. Raises ValueError for values that are no network, port or scheme."""

    allow: tuple[str, ...] = ()
    """Networks that are allowed although they are not public, such as 10.1.0.0/16 for receivers inside it."""
    deny: tuple[str, ...] = ()
    """Networks that are refused in any case, even if `allow` contains them."""
    allow_ports: tuple[int, ...] | None = None
    """The only ports that may be called. None: every port."""
    schemes: tuple[str, ...] = tuple(sorted(DEFAULT_PORTS))
    """http, https or both. Only https protects callbacks from being read and changed in transit."""
    proxies: tuple[str, ...] = ()
    """Forward proxies that destinations may name, as host:port, such as proxy.internal:3128. A proxy judges itself
    which addresses are called through it: `allow` and `deny` hold for the text of URLs only."""

    def __post_init__(self) -> None:
        self.policy()

    def policy(self) -> NetworkPolicy:
        return NetworkPolicy.parse(
            allow=self.allow,
            deny=self.deny,
            allow_ports=self.allow_ports,
            schemes=self.schemes,
            proxies=self.proxies,
        )


TABLES = (
    Table("cluster", ClusterSettings),
    Table("cassandra", StorageSettings),
    Table("secrets", SecretSettings),
    Table("api", ApiSettings),
    Table("console", ConsoleSettings),
    Table("bigben", BigBenSettings),
    Table("clients", ClientBounds),
    Table("acknowledgements", AckSettings),
    Table("goscheduler", GoSchedulerSettings),
    Table("hints", HintSettings),
    Table("node", NodeSettings),
    Table("minute", MinuteSettings),
    Table("receivers", ReceiverSettings),
    Table("reconciliations", ReconciliationSettings),
    Table("background", BackgroundSettings),
    Table("ops", OpsSettings),
    Table("health", HealthSettings),
    Table("membership", MembershipSettings),
    Table("delivery", DeliverySettings),
    Table("targets", TargetSettings),
    Table("network", NetworkSettings),
    Table("ingest", IngestSettings),
    Table("logging", LoggingSettings),
    Table("trace", TraceSettings),
)

FOR_API = ("api.admin_key", "cluster.token")
FOR_NODE = ("cluster.token",)
FOR_STORAGE = ()
FOR_INGEST = ("ingest.brokers", "ingest.topics", "ingest.client", "ingest.key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of every room. `api` is None where no administrator's key is configured."""

    cluster: ClusterSettings
    cassandra: StorageSettings
    secrets: SecretSettings
    api: ApiSettings | None
    console: ConsoleSettings
    hints: HintSettings
    node: NodeSettings
    ops: OpsSettings
    health: HealthSettings
    membership: MembershipSettings
    delivery: DeliverySettings
    targets: TargetSettings
    network: NetworkPolicy
    ingest: IngestSettings
    logging: LoggingSettings
    trace: TraceSettings

    def certificates(self, *, of: Literal["api", "ops"]) -> Certificates:
        """Those that a process shows: on its port, which the table `of` configures, to nodes and to Cassandra."""
        tables = {of: getattr(self, of), "cluster": self.cluster, "cassandra": self.cassandra}
        return Certificates({f"{name}.tls_cert_file": table.tls_cert_file for name, table in tables.items()})

    def file_secrets(self) -> Sequence[FileSecret]:
        """Those of the secrets that come from files and follow them."""
        tables = [getattr(self, one.name) for one in fields(self)]
        inner = [self.api.goscheduler] if self.api is not None else []
        found = [table for table in [*tables, *inner] if is_dataclass(table)]
        values = [getattr(table, one.name) for table in found for one in fields(table)]
        return [value for value in values if isinstance(value, FileSecret)]


def load_settings(
    *, environment: Mapping[str, str], file: Path | None = None, required: Collection[str] = ()
) -> Settings:
    """The settings of one process. `file` None: the one that MINUTEHAND_CONFIG names, if any. `required` names keys
    (`api.admin_key`) that must be given. Raises ConfigurationInvalid."""
    faults: list[Fault] = []
    named = environment.get(FILE_VARIABLE)
    if file is None and named:
        file = Path(named)
    document = _read_file(file, faults) if file is not None else {}
    values = {
        table.name: read_table(table, document.get(table.name, {}), source=str(file), faults=faults) for table in TABLES
    }
    _refuse_unknown(document, str(file), faults)
    for name, given in read_environment(TABLES, environment, faults).items():
        values[name].update(given)
    for key in required:
        table, _, name = key.partition(".")
        if values[table].get(name) is None:
            variable = next(one for one in TABLES if one.name == table).variable(name)
            how = f"set {variable} or {variable}{FILE_SUFFIX.upper()}, or {name} in the file's table."
            faults.append(Fault(key, f"is required: {how}"))
    rooms = {table.name: _build(table, values[table.name], faults) for table in TABLES}
    if not faults:
        faults += _contradictions(rooms)
    if faults:
        raise ConfigurationInvalid(faults)
    return _assemble(rooms)


def _read_file(file: Path, faults: list[Fault]) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(Fault(str(file), f"can't be read ({error.strerror}): name a file that exists."))
    except UnicodeDecodeError:
        faults.append(Fault(str(file), "is not UTF-8: write it as plain text."))
    except tomllib.TOMLDecodeError as error:
        faults.append(Fault(str(file), f"is not valid TOML: {error}."))
    return {}


def _refuse_unknown(document: Mapping[str, Any], source: str, faults: list[Fault]) -> None:
    known = [table.name for table in TABLES]
    faults += [
        Fault(source, f"has an unknown table or key {name!r}: use one of {', '.join(known)}.")
        for name in document
        if name not in known
    ]


def _build(table: Table, given: Mapping[str, Any], faults: list[Fault]) -> Any:
    """The room's settings; None when a required key is missing or a value is invalid."""
    names = {one.name for one in fields(table.type) if one.default is MISSING and one.default_factory is MISSING}
    if names - given.keys():
        return None
    try:
        built = table.type(**given)
        for name, value in given.items():
            if isinstance(value, FileSecret):
                value.check = partial(_rebuild, built, name)
        return built
    except (ValueError, SettingsInvalid) as error:
        faults.append(Fault(f"[{table.name}]", str(error).rstrip(".") + "."))
        return None


def _rebuild(built: Any, name: str, value: str) -> None:
    """Raises ValueError for a value that the table refuses."""
    try:
        replace(built, **{name: value})
    except SettingsInvalid as error:
        raise ValueError(str(error)) from error


def _contradictions(rooms: Mapping[str, Any]) -> list[Fault]:
    """Violations of rules that span rooms."""
    storage, membership, minute = rooms["cassandra"], rooms["membership"], rooms["minute"]
    faults = [
        Fault(
            f"cassandra.{name}",
            f"is {seconds:g}; it must be below membership.trust_seconds ({membership.trust_seconds:g}), or one slow "
            "answer stops all calls.",
        )
        for name in ("request_timeout_seconds", "liveness_timeout_seconds")
        if (seconds := getattr(storage, name)) >= membership.trust_seconds
    ]
    api = rooms["api"]
    if api is not None and storage.request_timeout_seconds >= api.request_timeout_seconds:
        faults.append(
            Fault(
                "cassandra.request_timeout_seconds",
                f"is {storage.request_timeout_seconds:g}; it must be below api.request_timeout_seconds "
                f"({api.request_timeout_seconds:g}), or requests time out before storage does.",
            )
        )
    faults += [
        Fault(f"[{wire}]", f"{wrong}.")
        for wire in ("goscheduler", "bigben")
        if api is not None and (wrong := rooms[wire].fault_on(api.host)) is not None
    ]
    least_grace_ms = LATE_AFTER_MS + 2 * membership.clock_limit_ms
    if minute.grace_ms < least_grace_ms:
        faults.append(
            Fault(
                "minute.grace_ms",
                f"is {minute.grace_ms}; it must be at least {least_grace_ms}: the time by which a create may be late, "
                "plus the difference between two clocks; else a row could be created after the sweep.",
            )
        )
    return faults


def _assemble(rooms: Mapping[str, Any]) -> Settings:
    """Put settings that the file has in tables of their own into the settings that hold them."""
    plain = {**rooms, "network": rooms["network"].policy()}
    whole = {
        table.name: replace(plain[table.name], **{name: plain[name] for name in table.inner()})
        for table in TABLES
        if table.inner() and plain[table.name] is not None
    }
    return Settings(**{one.name: {**plain, **whole}[one.name] for one in fields(Settings)})
