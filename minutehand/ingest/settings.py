"""Settings of the ingest: a table of the configuration like those of the other programs."""

from dataclasses import dataclass, field

from minutehand.ingest.plans import MAX_ITEMS
from scheduler_service.runtime.kafka_access import MECHANISMS, kafka_access


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """What `minutehand ingest kafka` reads, and as whom it creates. Raises ValueError for contradictions."""

    brokers: str | None = None
    """Brokers of Kafka to begin with, as host:port, several with commas in between."""
    topics: tuple[str, ...] = ()
    """Topics to read. All their records are of one client; run another process for another client."""
    group: str = "minutehand"
    """The consumer group, in which offsets are kept. Processes of one group divide the partitions among themselves."""
    dead_letter_topic: str = "minutehand-dead-letters"
    """Where records go that can never be created or cancelled, with all faults in their headers. It must exist."""
    url: str = "http://127.0.0.1:8080"
    """Address of the API."""
    client: str | None = None
    """The client whose schedules are made."""
    key: str | None = field(default=None, repr=False)
    """A key of that client, with the scope write."""
    ca_file: str | None = None
    """PEM file of the authorities that signed the API's certificate. None: the public ones."""
    event_destination: str | None = None
    """The client's destination to which calls of CloudEvents go that name neither a URL nor a
    destination."""
    begin: str = "earliest"
    """Where to begin in a partition of which the group has no offset: earliest or latest."""
    accept_past_seconds: float = 60.0
    """The client's setting of this name. Calls that came due longer ago, while records waited, are asked for as due
    that long ago: they are made at once, and late policies judge them by that. A client that accepts more keeps the
    true due of more."""
    retention_days: int = 1
    """The client's setting of this name, or less. After an outage that was longer, what may have been called and
    deleted is not made again, but becomes a dead letter with the kind in-doubt."""
    batch_records: int = MAX_ITEMS
    """Most creates in one request to the API, 1 to 1,000."""
    batch_bytes: int = 1024 * 1024
    """Most bytes in one request to the API, which has a bound of its own."""
    hold_records: int = 4_000
    """Records of one partition in memory above which no more of it are fetched."""
    hold_bytes: int = 8 * 1024 * 1024
    """Bytes of one partition in memory above which no more of it are fetched."""
    record_bytes: int = 1024 * 1024
    """A larger record is a dead letter at once."""
    session_seconds: float = 10.0
    """After so long without a heartbeat the group takes a process for dead, and gives its partitions to others. Brokers
    refuse less than 6 s by default."""
    stop_seconds: float = 10.0
    """How long work under way may go on when the process is stopped, or when another one takes a partition. What is
    unfinished then is repeated by the next owner of the partition, and makes nothing twice."""
    timeout_seconds: float = 30.0
    """How long one answer of the API may take."""
    host: str = "127.0.0.1"
    """Address at which health and metrics are served."""
    port: int = 0
    """Port at which health and metrics are served; 0 takes a free one."""
    tls: bool = False
    """Whether brokers are reached over TLS."""
    tls_ca_file: str | None = None
    """PEM file of the authorities that signed the brokers' certificates. None: the system's."""
    tls_certificate_file: str | None = None
    """PEM file of a certificate to show to brokers."""
    tls_private_key_file: str | None = None
    """PEM file of that certificate's private key."""
    sasl_mechanism: str | None = None
    """How to log in at brokers: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. None: not at all."""
    sasl_username: str | None = None
    """The name to log in with."""
    sasl_password: str | None = field(default=None, repr=False)
    """The password to log in with."""

    def __post_init__(self) -> None:
        if self.begin not in ("earliest", "latest"):
            raise ValueError("begin: use earliest or latest")
        if not 1 <= self.batch_records <= MAX_ITEMS:
            raise ValueError(f"batch_records: use 1 to {MAX_ITEMS}")
        for name in ("batch_bytes", "hold_records", "hold_bytes", "record_bytes", "retention_days"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")
        for name in ("accept_past_seconds", "stop_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: can't be negative")
        for name in ("timeout_seconds", "session_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0")
        if not 0 <= self.port <= 65_535:
            raise ValueError("port: must be from 0 to 65535")
        if self.sasl_mechanism is not None and self.sasl_mechanism not in MECHANISMS:
            raise ValueError(f"sasl_mechanism: use one of {', '.join(MECHANISMS)}")
        if (self.sasl_mechanism is None) is not (self.sasl_username is None and self.sasl_password is None):
            raise ValueError("sasl_mechanism: give it with sasl_username and sasl_password, or none of them")
        if self.dead_letter_topic in self.topics:
            raise ValueError("dead_letter_topic: must be none of the topics that are read")

    def client_of_kafka(self) -> dict[str, str | int | float | bool]:
        """What consumer and producer are told alike, in librdkafka's names. Raises ValueError without brokers."""
        if not self.brokers:
            raise ValueError("brokers: name at least one")
        access = kafka_access(
            self.brokers,
            tls=self.tls,
            ca_file=self.tls_ca_file,
            certificate_file=self.tls_certificate_file,
            key_file=self.tls_private_key_file,
            sasl_mechanism=self.sasl_mechanism,
            username=self.sasl_username,
            password=self.sasl_password,
        )
        return {**access, "client.id": "minutehand-ingest", "log.connection.close": False}
