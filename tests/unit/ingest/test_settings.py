"""Settings of the ingest, and what Kafka's clients are told."""

from typing import Any

import pytest

from minutehand.ingest.records import Poison
from minutehand.ingest.settings import IngestSettings
from minutehand.wiring_ingest import producer_settings, reader_of
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
        ({"sasl_username": "a"}, "sasl_mechanism"),
        ({"topics": ("t",), "dead_letter_topic": "t"}, "dead_letter_topic"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        IngestSettings(**given)


def test_how_brokers_are_logged_in_at() -> None:
    assert IngestSettings(brokers="b:1").client_of_kafka()["security.protocol"] == "PLAINTEXT"
    told = IngestSettings(
        brokers="b:1", tls=True, tls_ca_file="/ca", sasl_mechanism="PLAIN", sasl_username="u", sasl_password="p"
    )
    client = told.client_of_kafka()
    assert (client["security.protocol"], client["ssl.ca.location"]) == ("SASL_SSL", "/ca")
    assert (client["sasl.mechanism"], client["sasl.username"], client["sasl.password"]) == ("PLAIN", "u", "p")
    assert "'p'" not in repr(told)
    with pytest.raises(ValueError, match="brokers"):
        IngestSettings().client_of_kafka()


def test_letters_are_durable_in_every_replica() -> None:
    told = producer_settings(IngestSettings(brokers="b:1"))
    assert (told["acks"], told["enable.idempotence"]) == ("all", True)


def test_a_record_that_is_too_large_is_not_even_read() -> None:
    read = reader_of(IngestSettings(record_bytes=1000))
    assert isinstance(read(record(document(label="x" * 1000, delay_seconds=1))), Poison)
    assert not isinstance(read(record(document(label="x", delay_seconds=1))), Poison)
