"""The configuration of an embedded Kafka: `server.properties`, `log4j2.xml` and the JVM's options.

Everything that affects clients (sizes of messages, sessions of groups, time-outs) is the broker's own default, except
that nothing has replicas, a group's first rebalance does not wait, and a topic must be made before it is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

CLUSTER_ID = "bWludXRlaGFuZC1sb2NhbA"
"""16 bytes in base64url, as the format of a data directory asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """One broker that is its own controller. `heap_mb` in MiB. `properties` override or add to `server.properties`."""

    data_dir: Path
    host: str
    port: int
    controller_port: int
    heap_mb: int
    create_topics: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()

    @property
    def log_file(self) -> Path:
        """The broker's log."""
        return self.data_dir / "logs" / "server.log"

    @property
    def console_file(self) -> Path:
        """The JVM's own output."""
        return self.data_dir / "logs" / "console.log"

    @property
    def config_dir(self) -> Path:
        return self.data_dir / "conf"

    @property
    def records_dir(self) -> Path:
        """What Kafka calls its log: the records, and the cluster's metadata."""
        return self.data_dir / "records"

    @property
    def scratch_dir(self) -> Path:
        """The directory for unpacked native libraries: not /tmp, which may be mounted noexec."""
        return self.data_dir / "tmp"


def server_properties(settings: KafkaSettings) -> dict[str, str]:
    """The broker's configuration, in Kafka 4.1's names and units."""
    defaults: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{settings.host}:{settings.controller_port}",
        "listeners": (
            f"PLAINTEXT://{settings.host}:{settings.port},CONTROLLER://{settings.host}:{settings.controller_port}"
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": settings.records_dir,
        "auto.create.topics.enable": str(settings.create_topics).lower(),
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        # A broker that was killed is let in again once its former session is over: by default after 9 s.
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 500,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        "log.segment.bytes": 64 * 1024 * 1024,
    }
    return {**{name: str(value) for name, value in defaults.items()}, **settings.properties}


def log4j2_xml(settings: KafkaSettings) -> str:
    """Log from INFO up to one file, rotated at 20 MB with one predecessor kept."""
    log = escape(str(settings.log_file))
    return f"""<Configuration status="ERROR">
  <Appenders>
    <RollingFile name="FILE" fileName="{log}" filePattern="{log}.%i">
      <PatternLayout pattern="%-5level [%thread] %date{{ISO8601}} %logger{{1}} - %msg%n"/>
      <SizeBasedTriggeringPolicy size="20MB"/>
      <DefaultRolloverStrategy max="1"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="FILE"/></Root></Loggers>
</Configuration>
"""


def write_configuration(settings: KafkaSettings) -> None:
    """Write both files, and the directories that the broker uses."""
    for directory in (settings.config_dir, settings.log_file.parent, settings.scratch_dir, settings.records_dir):
        directory.mkdir(parents=True, exist_ok=True)
    lines = (f"{name}={_escaped(value)}\n" for name, value in server_properties(settings).items())
    properties_file(settings).write_text("".join(lines), encoding="utf-8")
    (settings.config_dir / "log4j2.xml").write_text(log4j2_xml(settings), encoding="utf-8")


def properties_file(settings: KafkaSettings) -> Path:
    return settings.config_dir / "server.properties"


def format_command(java: Path, jars: Sequence[Path], settings: KafkaSettings) -> list[str]:
    """Give an empty data directory its identity; it fails on one that has it."""
    arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(properties_file(settings))]
    return [*_java(java, jars, settings), "kafka.tools.StorageTool", *arguments]


def java_command(java: Path, jars: Sequence[Path], settings: KafkaSettings) -> list[str]:
    """The whole command line of the broker."""
    return [*_java(java, jars, settings), "kafka.Kafka", str(properties_file(settings))]


def _java(java: Path, jars: Sequence[Path], settings: KafkaSettings) -> list[str]:
    return [
        str(java),
        "-Xms64m",
        f"-Xmx{settings.heap_mb}m",
        f"-XX:ErrorFile={settings.log_file.parent / 'hs_err.log'}",
        *_MACHINE,
        f"-Dlog4j2.configurationFile={(settings.config_dir / 'log4j2.xml').as_uri()}",
        f"-Djava.io.tmpdir={settings.scratch_dir}",
        *settings.java_options,
        "-classpath",
        ":".join(map(str, jars)),
    ]


def _escaped(value: str) -> str:
    """A value as the format of Java's properties wants it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


_MACHINE = (
    # Without the second compiler, whose work pays off only after minutes, a start takes half the CPU time.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xss256k",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)
