"""The kind kafka: the operator's clusters, which targets they admit, and what the library's errors mean."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from poller_cluster.delivery.targets.ends import DONE, End
from poller_cluster.delivery.targets.kafka import outcomes
from poller_cluster.delivery.targets.kafka.kind import KafkaKind, Records
from poller_cluster.delivery.targets.kafka.outcomes import end_of
from poller_cluster.delivery.targets.kafka.settings import ClusterSettings, read_clusters
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.ids import ClientId

SHOP = ClientId("shop")
PLAIN = {"brokers": ["kafka.test:9092"], "clients": ["shop"], "topic_prefixes": ["mh.{client}.", "shared."]}


def kind(**settings: Any) -> KafkaKind:
    return KafkaKind({"clusters": {"main": {**PLAIN, **settings}}})


def faults(document: dict[str, Any], client_id: str = "shop") -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        kind().judge(document, client_id=ClientId(client_id))
    return {error.pointer: error.detail for error in caught.value.errors}


def test_a_target_names_cluster_and_topic() -> None:
    judged = kind().judge({"cluster": "main", "topic": "mh.shop.orders", "acks": "all"}, client_id=SHOP)
    assert judged == ("kafka://main/mh.shop.orders", Records("main", "mh.shop.orders", None), ())
    judged = kind().judge({"cluster": "main", "topic": "shared.x", "key": "ä"}, client_id=SHOP)
    assert judged.means == Records("main", "shared.x", "ä".encode())
    judged = kind().judge({"cluster": "main", "topic": "shared.x", "key_header": "X-Key"}, client_id=SHOP)
    assert judged.means == Records("main", "shared.x", None, "x-key")


def test_all_faults_are_named() -> None:
    assert set(faults({"topic": 3, "key": "", "acks": "1", "brokers": "evil:9092", "key_header": " ", "a/b": 1})) == {
        "/key_header",
        "/cluster",
        "/topic",
        "/key",
        "/acks",
        "/brokers",
        "/a~1b",
    }


def test_a_cluster_and_a_topic_that_are_not_admitted_are_named_beside_other_faults() -> None:
    found = faults({"cluster": "other", "topic": "a b", "acks": "1", "more": 1})
    assert set(found) == {"/cluster", "/topic", "/acks", "/more"}
    assert set(faults({"cluster": "main", "topic": "orders", "key": ""})) == {"/topic", "/key"}
    assert set(faults({"cluster": "other", "topic": "orders"})) == {"/cluster"}, "whose prefixes would hold?"


def test_a_target_has_a_key_or_the_name_of_the_header_with_it() -> None:
    found = faults({"cluster": "main", "topic": "shared.x", "key": "k", "key_header": "X-Key"})
    assert found == {"/key_header": "is only for targets without a key"}


@pytest.mark.parametrize("topic", ["mh.crm.orders", "orders", "MH.shop.x"])
def test_topics_begin_as_the_operator_says(topic: str) -> None:
    assert "must begin with 'mh.shop.' or 'shared.'" in faults({"cluster": "main", "topic": topic})["/topic"]


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "mh.shop." + "x" * 250, "mh.shop.\n", "mh.shop.ä"])
def test_topics_are_those_of_kafka(topic: str) -> None:
    assert "/topic" in faults({"cluster": "main", "topic": topic})


def test_internal_topics_are_refused() -> None:
    with pytest.raises(Invalid, match="internal"):
        kind(topic_prefixes=[""]).judge({"cluster": "main", "topic": "__consumer_offsets"}, client_id=SHOP)


def test_a_cluster_of_others_is_as_one_that_is_not_there() -> None:
    named = {"cluster": "main", "topic": "shared.x"}
    assert faults(named, "crm") == faults({**named, "cluster": "other"})
    assert kind(clients=["*"]).judge(named, client_id=ClientId("crm")).address == "kafka://main/shared.x"


def test_secrets_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("minutehand\n", encoding="utf-8")
    (tmp_path / "password").write_text("canary7f3a\n", encoding="utf-8")
    (tmp_path / "ca.pem").write_text("pem", encoding="utf-8")
    table = {
        **PLAIN,
        "tls": True,
        "tls_ca_file": str(tmp_path / "ca.pem"),
        "sasl_mechanism": "SCRAM-SHA-512",
        "username_file": str(tmp_path / "name"),
        "password_file": str(tmp_path / "password"),
        "message_timeout_seconds": 5,
    }
    cluster = read_clusters({"clusters": {"main": table}})["main"]
    made = cluster.producer()
    assert (made["sasl.username"], made["sasl.password"], made["security.protocol"]) == (
        "minutehand",
        "canary7f3a",
        "SASL_SSL",
    )
    assert (made["acks"], made["enable.idempotence"], made["message.timeout.ms"]) == ("all", True, 5000)
    assert made["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert "canary7f3a" not in repr(cluster)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "name at least one cluster"),
        ({"brokers": []}, "brokers is not known: use clusters; name at least one"),
        ({"clusters": {"Main": PLAIN}}, "clusters.Main: name clusters by"),
        ({"clusters": {"main": 3}}, "must be a table"),
        ({"clusters": {"main": {}}}, "brokers is required; clients is required; topic_prefixes is required"),
        ({"clusters": {"main": {**PLAIN, "linger_ms": "5", "no": 1}}}, "no is not known.*linger_ms must be a number"),
        ({"clusters": {"main": {**PLAIN, "brokers": ["kafka"]}}}, "as host:port"),
        ({"clusters": {"main": {**PLAIN, "clients": []}}}, "clients: name those"),
        ({"clusters": {"main": {**PLAIN, "topic_prefixes": []}}}, "topic_prefixes: name what"),
        ({"clusters": {"main": {**PLAIN, "tls": True, "tls_ca_file": "/no/such"}}}, "/no/such, which can't be read"),
        ({"clusters": {"main": {**PLAIN, "tls_ca_file": "/ca"}}}, "are for tls = true"),
        ({"clusters": {"main": {**PLAIN, "linger_ms": -1, "buffer_mb": 0}}}, "from 0 to 1000; buffer_mb must be from"),
        (
            {"clusters": {"main": {**PLAIN, "sasl_mechanism": "PLAIN"}}},
            "sasl_mechanism, username_file and password_file go",
        ),
        ({"clusters": {"main": {**PLAIN, "compression": "rar"}}}, "compression: use one of"),
        ({"clusters": {"main": {**PLAIN, "message_timeout_seconds": 0.5}}}, "from 1 to 300"),
        ({"clusters": {"main": {**PLAIN, "login": "x"}}}, "login is not known"),
    ],
)
def test_a_fault_of_settings_is_a_sentence(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_clusters(settings)


@pytest.mark.parametrize(
    ("error", "end", "nothing_sent"),
    [
        (KafkaError.INVALID_RECORD, End.REFUSED, True),
        (KafkaError.POLICY_VIOLATION, End.REFUSED, True),
        (KafkaError.MSG_SIZE_TOO_LARGE, End.UNAVAILABLE, True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, End.UNAVAILABLE, True),
        (KafkaError._UNKNOWN_TOPIC, End.UNAVAILABLE, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, End.UNAVAILABLE, True),
        (KafkaError.SASL_AUTHENTICATION_FAILED, End.UNAVAILABLE, True),
        (KafkaError.NOT_ENOUGH_REPLICAS, End.UNAVAILABLE, True),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, End.UNAVAILABLE, False),
        (KafkaError._QUEUE_FULL, End.UNAVAILABLE, True),
        (KafkaError._TRANSPORT, End.UNAVAILABLE, False),
        (KafkaError._FATAL, End.UNAVAILABLE, False),
        (KafkaError.UNKNOWN, End.UNAVAILABLE, False),
        (KafkaError._MSG_TIMED_OUT, End.TIMED_OUT, False),
        (KafkaError._TIMED_OUT, End.TIMED_OUT, False),
        (KafkaError.REQUEST_TIMED_OUT, End.TIMED_OUT, False),
        (KafkaError._PURGE_INFLIGHT, End.STOPPED, False),
    ],
)
def test_each_error_is_an_end(error: int, end: End, nothing_sent: bool) -> None:
    found = end_of(KafkaError(error).name())
    assert (found.end, found.nothing_sent) == (end, nothing_sent)
    assert found.detail


def test_no_error_is_the_acknowledgement_of_all_replicas() -> None:
    assert end_of(None) is DONE


def test_the_names_in_the_table_are_the_librarys() -> None:
    named = {*outcomes._REFUSED, *outcomes._NOT_WRITTEN, *outcomes._PERHAPS_WRITTEN, *outcomes._TIMED_OUT}
    named |= {outcomes.PURGED_QUEUED, outcomes.PURGED_SENT}
    codes = [code for code in vars(KafkaError).values() if isinstance(code, int)]
    codes += [getattr(KafkaError, name) for name in dir(KafkaError) if isinstance(getattr(KafkaError, name), int)]
    known = {KafkaError(code).name() for code in codes}
    assert named <= known, named - known


def test_a_time_out_says_what_the_cluster_last_said() -> None:
    assert end_of("_MSG_TIMED_OUT", last_error="_ALL_BROKERS_DOWN").detail == (
        "no acknowledgement in time; the last error of the cluster: no broker can be reached"
    )


def test_topics_of_a_client_may_carry_its_id() -> None:
    cluster = ClusterSettings(brokers=("a:1",), clients=("*",), topic_prefixes=("{client}-",))
    assert cluster.prefixes_for("shop") == ("shop-",)


@pytest.mark.parametrize("client_id", ["shop.eu", "shop.", "a.b.c"])
def test_topics_of_one_client_do_not_begin_as_those_of_another(client_id: str) -> None:
    """`mh.shop.` is what topics of shop.eu begin with, too."""
    everybody = kind(clients=["*"])
    with pytest.raises(Invalid, match=r"must begin with 'shared\.'"):
        everybody.judge({"cluster": "main", "topic": f"mh.{client_id}.x"}, client_id=ClientId(client_id))
    assert everybody.judge({"cluster": "main", "topic": "mh.s-e_u.x"}, client_id=ClientId("s-e_u")).address


def test_a_prefix_ends_the_clients_id() -> None:
    with pytest.raises(ValueError, match=r"end \{client\} with a character"):
        kind(topic_prefixes=["mh.{client}"])
