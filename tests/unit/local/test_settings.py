"""The configuration that an embedded server gets."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from minutehand.local.settings import ServerSettings, cassandra_yaml, java_command, logback_xml, write_configuration


def settings(directory: Path, **changes: object) -> ServerSettings:
    values: dict[str, object] = {
        "data_dir": directory,
        "host": "127.0.0.2",
        "native_port": 19042,
        "storage_port": 17000,
        "seeds": ("127.0.0.1",),
        "cluster_name": "minutehand",
        "heap_mb": 512,
        "num_tokens": 16,
    }
    return ServerSettings(**{**values, **changes})  # type: ignore[arg-type]


def test_the_server_listens_on_its_own_address_and_ports_only(tmp_path: Path) -> None:
    yaml = cassandra_yaml(settings(tmp_path))
    assert (yaml["listen_address"], yaml["rpc_address"]) == ("127.0.0.2", "127.0.0.2")
    assert (yaml["storage_port"], yaml["native_transport_port"]) == (17000, 19042)
    assert "127.0.0.1:17000" in json.dumps(yaml["seed_provider"])


def test_what_clients_see_is_left_to_the_server(tmp_path: Path) -> None:
    told = " ".join(cassandra_yaml(settings(tmp_path)))
    for decided_by_server in ("batch", "timeout", "cas", "paxos", "consistency", "compaction_strategy", "sstable"):
        assert decided_by_server not in told


def test_callers_may_override(tmp_path: Path) -> None:
    yaml = cassandra_yaml(settings(tmp_path, yaml={"num_tokens": 1, "authenticator": "PasswordAuthenticator"}))
    assert (yaml["num_tokens"], yaml["authenticator"]) == (1, "PasswordAuthenticator")
    assert "auto_snapshot" not in cassandra_yaml(settings(tmp_path, yaml={"auto_snapshot": None}))


def test_a_durable_server_waits_for_the_disk(tmp_path: Path) -> None:
    usual, durable = cassandra_yaml(settings(tmp_path)), cassandra_yaml(settings(tmp_path, durable=True))
    assert (usual["commitlog_sync"], usual["commitlog_sync_period"]) == ("periodic", "10000ms")
    assert durable["commitlog_sync"] == "batch"
    assert "commitlog_sync_period" not in durable


def test_the_files_are_written_below_the_data_directory(tmp_path: Path) -> None:
    directory = tmp_path / "data & more"
    made = settings(directory)
    write_configuration(made)
    assert json.loads((directory / "conf/cassandra.yaml").read_text())["cluster_name"] == "minutehand"
    log = ElementTree.fromstring((directory / "conf/logback.xml").read_text()).findtext("appender/file")
    assert log == str(made.log_file)
    assert logback_xml(made) == (directory / "conf/logback.xml").read_text()


def test_the_command_line_names_everything(tmp_path: Path) -> None:
    made = settings(tmp_path, java_options=("-Xss1m",))
    command = java_command(Path("/java"), [Path("/a.jar"), Path("/b.jar")], made)
    assert command[0] == "/java"
    assert command[-3:] == ["-classpath", "/a.jar:/b.jar", "org.apache.cassandra.service.CassandraDaemon"]
    assert "-Xmx512m" in command
    assert command.index("-Xss1m") > command.index("-Xss256k"), "the last one counts"
    assert f"-Dcassandra.config=file://{tmp_path}/conf/cassandra.yaml" in command
    assert not [word for word in command if "jmxremote" in word or "jmx.local" in word]


def test_a_node_that_joins_waits_longer_than_the_first(tmp_path: Path) -> None:
    joining, first = settings(tmp_path), settings(tmp_path, seeds=("127.0.0.2",))
    assert "-Dcassandra.ring_delay_ms=3000" in java_command(Path("/java"), [], joining)
    assert "-Dcassandra.ring_delay_ms=1000" in java_command(Path("/java"), [], first)
