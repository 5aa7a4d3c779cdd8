"""Settings of the connections to Cassandra."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How programs connect to Cassandra; every default suits one local node. Raises ValueError for values that can't
    work together."""

    contact_points: tuple[str, ...] = ("127.0.0.1",)
    """Names or addresses of some nodes of the Cassandra cluster; the driver discovers the others from them."""
    port: int = 9042
    """Port of the native protocol, the same on all nodes of Cassandra."""
    keyspace: str = "minutehand"
    """Keyspace that holds all tables. `minutehand migrate` creates it."""
    local_dc: str = "datacenter1"
    """The home data centre. All programs of a cluster must name the same one; it is stored, and checked at start."""
    replication_factor: int = 1
    """Replicas of each row in the home data centre; used when `minutehand migrate` creates the keyspace. Use 3 in
    production."""
    request_timeout_seconds: float = 2.0
    """Seconds after which a read or plain write without an answer counts as failed, and a conditional write as
    unknown."""
    liveness_timeout_seconds: float = 3.5
    """The same time-out for heartbeats, reads of members, and leases, which use separate connections. It must be below
    `membership.trust_seconds`: a heartbeat that is acknowledged this late still leaves some trust."""
    connect_timeout_seconds: float = 10.0
    """Seconds that the first connection may take. If it is too short for a busy server, programs fail at start."""
    schema_timeout_seconds: float = 30.0
    """The same for statements that change the schema, which take seconds on a large cluster."""
    username: str | None = None
    """Role to log in as. None: no login."""
    password: str | None = field(default=None, repr=False)
    """Password of that role; give a password, here or in a file, exactly if you give a user name."""
    username_file: str | None = None
    """File that holds the user name. This file and those below are read again for new connections once they have
    changed."""
    password_file: str | None = None
    """File that holds the password."""
    tls_ca_file: str | None = None
    """PEM file of the authorities that sign the Cassandra servers' certificates. None: no TLS."""
    tls_cert_file: str | None = None
    """PEM file of the certificate that programs present, if the Cassandra cluster requires one."""
    tls_key_file: str | None = None
    """PEM file of that certificate's key."""
    tls_check_hostname: bool = True
    """Whether a server's certificate must contain the address that it is reached at. If not, the holder of any
    certificate of these authorities can impersonate the Cassandra cluster."""
    tls_server_name: str | None = None
    """Name that every server's certificate must contain instead of its address."""
    requests_in_flight: int = 1024
    """Unanswered requests of all stores of a process together; further ones wait. A process lowers the limit by itself
    while Cassandra answers hardly any in time."""
    requests_waiting: int = 10_000
    """Requests that may wait to be sent; further ones are refused as overload."""
    group_commit_delay_seconds: float = 0.004
    """Seconds that a create waits for others to share its request while another request is under way. Longer: fewer and
    larger requests."""
    group_commit_in_flight: int = 8
    """Unanswered requests with creates. While there are as many, further creates are gathered."""
    group_commit_rows: int = 200
    """Rows of one partition in one request, at most."""
    group_commit_partitions: int = 40
    """Partitions in one request, at most. Above 10 the server logs a warning, once a minute
    (`unlogged_batch_across_partitions_warn_threshold`); a lower value makes more requests if creates are due in many
    different minutes."""
    group_commit_bytes: int = 40_000
    """Bytes of a request over several partitions. The server refuses more than 50 KiB unless configured otherwise."""
    queue_rows: int = 20_000
    """Creates that may wait at once; further ones are refused as overload. Each costs its payload in memory."""
    queue_bytes: int = 64 * 1024 * 1024
    """Bytes of payload that may wait at once; further creates are refused as overload."""
    max_write_bytes: int = 8 * 1024 * 1024
    """Bytes of the largest request on one partition. The server refuses mutations over half a commit log segment: 16
    MiB."""
    known_partitions: int = 200_000
    """Partitions of which a process remembers that their index row is written. Each costs about 250 bytes; a forgotten
    one costs another write of its index row."""

    def __post_init__(self) -> None:
        if not self.contact_points:
            raise ValueError("contact_points: name at least one node of the Cassandra cluster")
        if not self.keyspace.isidentifier() or self.keyspace != self.keyspace.lower():
            raise ValueError("keyspace: use lower-case letters, digits and underscores")
        for name in ("username", "password"):
            if None not in (getattr(self, name), getattr(self, f"{name}_file")):
                raise ValueError(f"{name} and {name}_file: give one of them")
        if self.logs_in != (self.password is not None or self.password_file is not None):
            raise ValueError("username and password go together: give both or neither")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: give both or neither")
        if self.tls_ca_file is None and (self.tls_cert_file is not None or self.tls_server_name is not None):
            raise ValueError("tls_ca_file: must be given with tls_cert_file or tls_server_name, which need TLS")
        if self.replication_factor < 1:
            raise ValueError("replication_factor: at least 1")
        if self.group_commit_rows < 1 or self.group_commit_partitions < 1 or self.group_commit_in_flight < 1:
            raise ValueError("group_commit_rows, _partitions and _in_flight: at least 1")
        if self.group_commit_bytes > self.max_write_bytes:
            raise ValueError("group_commit_bytes: at most max_write_bytes")

    def for_liveness(self) -> "StorageSettings":
        """The settings of the connections for heartbeats and leases. Their stores limit their own requests
        (`MembershipSettings`), so a heartbeat never waits for room."""
        return replace(self, request_timeout_seconds=self.liveness_timeout_seconds)

    @property
    def logs_in(self) -> bool:
        """Whether the program logs in with user and password."""
        return self.username is not None or self.username_file is not None
