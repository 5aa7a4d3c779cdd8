"""Settings of the ingest, and what Kafka's clients are told."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from minutehand.errors import LocalError
from minutehand.ingest.records import Poison
from minutehand.ingest.settings import IngestSettings
from minutehand.wiring_ingest import producer_settings, reader_of
from poller_cluster.delivery.targets.kafka.settings import ClusterSettings
from scheduler_service.runtime.kafka_access import KafkaAccess
from tests.unit.ingest.test_records import document, record


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"begin": "now"}, "begin"),
        ({"batch_records": 1001}, "batch_records"),
        ({"hold_bytes": 0}, "hold_bytes"),
        ({"stop_seconds": -1}, "stop_seconds"),
        ({"session_seconds": 0}, "session_seconds"),
        ({"port": 70_000}, "port"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
        ({"username_file": "a"}, "sasl_mechanism"),
        ({"tls_ca_file": "a", "tls_key_file": "b"}, "tls_cert_file and tls_key_file go .*; .* are for tls = true"),
        ({"brokers": ("kafka",)}, "brokers"),
        ({"topics": ("t",), "dead_letter_topic": "t"}, "dead_letter_topic"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        IngestSettings(**given)


def test_how_brokers_are_logged_in_at(tmp_path: Path) -> None:
    assert IngestSettings(brokers=("b:1", "c:1")).client_of_kafka()["bootstrap.servers"] == "b:1,c:1"
    assert IngestSettings(brokers=("b:1",)).client_of_kafka()["security.protocol"] == "PLAINTEXT"
    for name in ("ca", "u", "p"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    files = {"username_file": str(tmp_path / "u"), "password_file": str(tmp_path / "p")}
    told = IngestSettings(brokers=("b:1",), tls=True, tls_ca_file=str(tmp_path / "ca"), sasl_mechanism="PLAIN", **files)
    client = told.client_of_kafka()
    assert (client["security.protocol"], client["ssl.ca.location"]) == ("SASL_SSL", str(tmp_path / "ca"))
    assert (client["sasl.mechanism"], client["sasl.username"], client["sasl.password"]) == ("PLAIN", "u", "p")
    for name in ("ca", "p"):
        (tmp_path / name).unlink()
    (tmp_path / "u").write_text("\n", encoding="utf-8")
    with pytest.raises(LocalError, match=r"tls_ca_file names .*; username_file names .* empty; password_file names"):
        told.client_of_kafka()
    with pytest.raises(LocalError, match="brokers"):
        IngestSettings().client_of_kafka()


def test_ingest_and_targets_have_the_same_names_for_access() -> None:
    names = {one.name for one in fields(KafkaAccess)}
    assert names <= {one.name for one in fields(IngestSettings)} & {one.name for one in fields(ClusterSettings)}


def test_letters_are_durable_in_every_replica() -> None:
    told = producer_settings(IngestSettings(brokers=("b:1",)))
    assert (told["acks"], told["enable.idempotence"]) == ("all", True)


def test_a_record_that_is_too_large_is_not_even_read() -> None:
    read = reader_of(IngestSettings(record_bytes=1000))
    assert isinstance(read(record(document(label="x" * 1000, delay_seconds=1))), Poison)
    assert not isinstance(read(record(document(label="x", delay_seconds=1))), Poison)
