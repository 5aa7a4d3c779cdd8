"""The configuration of an embedded Cassandra: `cassandra.yaml`, `logback.xml` and the JVM's options.

Everything that affects clients (batch limits, time-outs, consistency, compaction defaults) is the server's own default,
so that what holds here holds on a production cluster. Only sizes are small, waits meant for large clusters are cut, and
nothing listens but the two ports.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

DATACENTER = "datacenter1"
"""SimpleSnitch's name for the only data centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """One server. `heap_mb` in MiB; a `durable` server acknowledges a write once it is on the disk.

    `yaml` overrides or adds settings of `cassandra.yaml`; None drops one. `java_options` come behind our own, so they
    override them.
    """

    data_dir: Path
    host: str
    native_port: int
    storage_port: int
    seeds: tuple[str, ...]
    cluster_name: str
    heap_mb: int
    num_tokens: int
    durable: bool = False
    yaml: Mapping[str, object] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()

    @property
    def log_file(self) -> Path:
        """The server's log."""
        return self.data_dir / "logs" / "system.log"

    @property
    def console_file(self) -> Path:
        """The JVM's own output."""
        return self.data_dir / "logs" / "console.log"

    @property
    def joins(self) -> bool:
        """Whether it joins an existing cluster."""
        return any(seed != self.host for seed in self.seeds)

    @property
    def config_dir(self) -> Path:
        return self.data_dir / "conf"

    @property
    def scratch_dir(self) -> Path:
        """The directory for unpacked native libraries: not /tmp, which may be mounted noexec."""
        return self.data_dir / "tmp"


def cassandra_yaml(settings: ServerSettings) -> dict[str, object]:
    """The server's configuration, in Cassandra 5.0's names and units."""
    defaults: dict[str, object] = {
        "cluster_name": settings.cluster_name,
        "num_tokens": settings.num_tokens,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": ",".join(f"{seed}:{settings.storage_port}" for seed in settings.seeds)}],
            }
        ],
        "listen_address": settings.host,
        "rpc_address": settings.host,
        "storage_port": settings.storage_port,
        "native_transport_port": settings.native_port,
        # `periodic` is the server's default; a killed server may lose its last 100 ms of acknowledged writes.
        "commitlog_sync": "batch" if settings.durable else "periodic",
        "commitlog_sync_period": None if settings.durable else "10000ms",
        "commitlog_total_space": "1024MiB",
        "memtable_heap_space": f"{settings.heap_mb // 4}MiB",
        "memtable_offheap_space": "64MiB",
        "key_cache_size": "16MiB",
        "counter_cache_size": "0MiB",
        "file_cache_size": f"{max(settings.heap_mb // 8, 32)}MiB",
        "concurrent_compactors": 1,
        "auto_snapshot": False,
        "hinted_handoff_enabled": True,
        # A server that can't write shall exit, which is noticed, and not run on with its ports closed.
        "disk_failure_policy": "die",
        "commit_failure_policy": "die",
    }
    return {name: value for name, value in {**defaults, **settings.yaml}.items() if value is not None}


def logback_xml(settings: ServerSettings) -> str:
    """Log from INFO up to one file, rotated at 20 MB with one predecessor kept."""
    log = escape(str(settings.log_file))
    return f"""<configuration scan="false">
  <appender name="FILE" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>{log}</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>{log}.%i</fileNamePattern>
      <minIndex>1</minIndex>
      <maxIndex>1</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>20MB</maxFileSize>
    </triggeringPolicy>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"""


def write_configuration(settings: ServerSettings) -> None:
    """Write both files. JSON is YAML, so no YAML library is needed."""
    for directory in (settings.config_dir, settings.log_file.parent, settings.scratch_dir):
        directory.mkdir(parents=True, exist_ok=True)
    document = json.dumps(cassandra_yaml(settings), indent=2)
    (settings.config_dir / "cassandra.yaml").write_text(document + "\n", encoding="utf-8")
    (settings.config_dir / "logback.xml").write_text(logback_xml(settings), encoding="utf-8")


def java_command(java: Path, jars: Sequence[Path], settings: ServerSettings) -> list[str]:
    """The whole command line of the server."""
    properties = {
        "cassandra.config": (settings.config_dir / "cassandra.yaml").as_uri(),
        "cassandra.storagedir": settings.data_dir,
        "cassandra.logdir": settings.log_file.parent,
        "logback.configurationFile": settings.config_dir / "logback.xml",
        "java.io.tmpdir": settings.scratch_dir,
        "cassandra.ring_delay_ms": _JOIN_DELAY_MS if settings.joins else _FIRST_DELAY_MS,
        **_PROPERTIES,
    }
    memory = ["-Xms128m", f"-Xmx{settings.heap_mb}m"]
    return [
        str(java),
        *memory,
        f"-XX:MaxDirectMemorySize={max(settings.heap_mb // 2, 256)}m",
        f"-XX:ErrorFile={settings.log_file.parent / 'hs_err.log'}",
        *_MACHINE,
        *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
        *(f"-D{name}={value}" for name, value in properties.items()),
        *settings.java_options,
        "-classpath",
        ":".join(map(str, jars)),
        "org.apache.cassandra.service.CassandraDaemon",
    ]


FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""Disables the second compiler, whose work pays off only after minutes: a start takes half the CPU time."""

_FIRST_DELAY_MS = 1000
_JOIN_DELAY_MS = 3000
"""A joining node waits this long for a first exchange with a seed, which is tried once a second: one try is too few."""

_PROPERTIES = {
    "cassandra-foreground": "yes",
    "cassandra.skip_wait_for_gossip_to_settle": "0",
    "cassandra.superuser_setup_delay_ms": "0",
    "cassandra.shutdown_announce_in_ms": "100",
    "jdk.attach.allowAttachSelf": "true",
    "java.net.preferIPv4Stack": "true",
    "io.netty.tryReflectionSetAccessible": "true",
    "io.netty.allocator.useCacheForAllThreads": "true",
    "io.netty.allocator.maxOrder": "11",
    # A dependency of Cassandra that would report its use over the network.
    "chronicle.analytics.disable": "true",
    "chronicle.announcer.disable": "true",
}

_MACHINE = (
    "-Xss256k",
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
)

# From Cassandra 5.0's conf/jvm17-server.options, which the artefact does not contain.
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
)
_OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.nio",
)
