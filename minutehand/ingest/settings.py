"""Settings of the ingest: a table of the configuration like those of the other programs."""

from dataclasses import dataclass, field

from minutehand.errors import LocalError
from minutehand.ingest.plans import MAX_ITEMS
from scheduler_service.runtime.kafka_access import KafkaAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings(KafkaAccess):
    """What `minutehand ingest kafka` reads, and as whom it creates. Raises ValueError for contradictions."""

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

    def __post_init__(self) -> None:
        KafkaAccess.__post_init__(self)
        if self.begin not in ("earliest", "latest"):
            raise ValueError("begin: use earliest or latest")
        if not 1 <= self.batch_records <= MAX_ITEMS:
            raise ValueError(f"batch_records: use 1 to {MAX_ITEMS}")
        for name in ("batch_bytes", "hold_records", "hold_bytes", "record_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")
        if self.stop_seconds < 0:
            raise ValueError("stop_seconds: can't be negative")
        for name in ("timeout_seconds", "session_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be above 0")
        if not 0 <= self.port <= 65_535:
            raise ValueError("port: must be from 0 to 65535")
        if self.dead_letter_topic in self.topics:
            raise ValueError("dead_letter_topic: must be none of the topics that are read")

    def client_of_kafka(self) -> dict[str, str | int | float | bool]:
        """What consumer and producer are told alike, in librdkafka's names. Raises LocalError without brokers, and for
        files that can't be used."""
        try:
            access = self.read_access()
        except ValueError as error:
            raise LocalError(f"[ingest] {error}.", "Correct the table of the configuration.") from None
        return {**access, "client.id": "minutehand-ingest", "log.connection.close": False}
