"""How this room reaches Cassandra, and how many requests it sends at once."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """Every field has a default that suits one local node. Raises ValueError for values that can't work together."""

    contact_points: tuple[str, ...] = ("127.0.0.1",)
    """Names or addresses of some nodes of the cluster; the others are found from them."""
    port: int = 9042
    """The native protocol's port, the same on all nodes."""
    keyspace: str = "minutehand"
    """All tables are in it. `migrate` creates it."""
    local_dc: str = "datacenter1"
    """The home data centre. All programs of a cluster must name the same one; it is stored and checked at start."""
    replication_factor: int = 1
    """Copies of everything in the home data centre; used when `migrate` creates the keyspace. 3 in production."""
    request_timeout_seconds: float = 2.0
    """After this long without an answer a read or plain write is unavailable, a conditional write unknown."""
    liveness_timeout_seconds: float = 3.5
    """The same for heartbeats, what members are read by, and leases, which go over connections of their own. It must be
    below `membership.trust_seconds`: a heartbeat acknowledged so late still gives the rest of the trust."""
    connect_timeout_seconds: float = 10.0
    """How long the first connection may take. Too short for a busy server, and programs fail at start."""
    schema_timeout_seconds: float = 30.0
    """The same for statements that change the schema, which take seconds on a large cluster."""
    username: str | None = None
    """Role to log in as. None: the cluster asks for no password."""
    password: str | None = field(default=None, repr=False)
    """Its password; given, here or by a file, exactly when the user is."""
    username_file: str | None = None
    """File that holds the user. This and the files below are read again at new connections when they changed."""
    password_file: str | None = None
    """File that holds the password."""
    tls_ca_file: str | None = None
    """PEM file of the authorities that sign the cluster's certificates. None: no TLS."""
    tls_cert_file: str | None = None
    """PEM file of our own certificate, where the cluster asks for one."""
    tls_key_file: str | None = None
    """PEM file of its key."""
    tls_check_hostname: bool = True
    """Whether a server's certificate must name the address it is reached at. Without it the holder of any certificate
    of these authorities can pose as the cluster."""
    tls_server_name: str | None = None
    """The name that every server's certificate has to carry instead, where they name no addresses."""
    requests_in_flight: int = 1024
    """Requests that may be unanswered at once, over all stores. More wait for their turn. A process allows itself fewer
    while Cassandra answers hardly any in time."""
    requests_waiting: int = 10_000
    """Requests that may wait for their turn; beyond, they are refused as overload."""
    group_commit_delay_seconds: float = 0.004
    """How long a create waits for others to share its request while one is under way. Longer: fewer and larger ones."""
    group_commit_in_flight: int = 8
    """Requests with creates that may be unanswered at once. Beyond it creates gather, however many they are."""
    group_commit_rows: int = 200
    """Rows of one partition in one request at most."""
    group_commit_partitions: int = 40
    """Partitions in one request at most. Above 10 the server says so in its log, once a minute
    (`unlogged_batch_across_partitions_warn_threshold`); fewer make more requests where dues are scattered."""
    group_commit_bytes: int = 40_000
    """Bytes of a request over several partitions. The server refuses above 50 KiB unless configured otherwise."""
    queue_rows: int = 20_000
    """Creates that may wait at once; beyond, they are refused as overload. Costs their payloads in memory."""
    queue_bytes: int = 64 * 1024 * 1024
    """The same by their payloads' bytes."""
    max_write_bytes: int = 8 * 1024 * 1024
    """Largest request on one partition. The server refuses mutations over half a commit log segment: 16 MiB."""
    known_partitions: int = 200_000
    """Partitions of which this process remembers that their index row is written. Costs some 250 bytes each."""

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
            raise ValueError("tls_ca_file: needed for TLS, which tls_cert_file and tls_server_name are for")
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
