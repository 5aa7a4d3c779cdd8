"""Rows of a load's input are decoded as by the API; the operator's rules arrive through spark-submit."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from inspect import isclass
from ipaddress import ip_network
from typing import get_args

import msgspec
import pytest
from msgspec import Struct
from pyspark import SparkConf

from cql.memory.connection import InMemoryConnection
from cql.settings import StorageSettings
from cql.storage import Storage
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, NodeState
from scheduler_service.domain.bulk_loads import BulkLoad
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.usecases.bulk_load import NOT_LOADED
from scheduler_service.usecases.schedule_request import LocalTime, ScheduleRequest
from scheduler_service.usecases.secret_encryption import SecretSettings
from spark.io import bulk_input
from spark.io.submitted import submitted_bounds, submitted_policy, submitted_secrets, submitted_storage
from spark.jobs.bulk_executor import Work, all_know, load_part
from spark.jobs.bulk_rows import Line, Reader

FLAT = Reader(flat=True, key="id")
LINES = Reader(flat=False, key="order id")
FLAT_COLUMNS = frozenset(bulk_input.FLAT)
IN_AN_HOUR = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
SHOP = ClientId("shop")
CLIENT = Client(
    client_id=SHOP,
    poller_quota=1,
    poller_ceiling=1,
    state=ClientState.ACTIVE,
    settings=ClientSettings(),
    revision=1,
    created_at=UnixMillis(0),
)
LOAD = BulkLoad(
    client_id=SHOP, load_id="orders", key_column="id", pollers=1, started_at=UnixMillis(0), state_at=UnixMillis(0)
)


def no_faults(request: ScheduleRequest) -> Sequence[FieldError]:
    return []


def faults(reader: Reader, row: str) -> list[str]:
    found = reader.request(row, no_faults)
    assert isinstance(found, Invalid)
    return reader.reasons(found.errors)


def refused(row: object, *, flat: bool) -> list[str]:
    """The reasons of a task, which judges by all rules, as in a dry run; none for a row that it would load."""
    work = Work(
        storage=None,
        secrets=SecretSettings(),
        policy=NetworkPolicy(),
        bounds=ClientBounds(),
        client=CLIENT,
        destinations=("orders",),
        load=LOAD,
        again=False,
        flat=flat,
        rate=1e6,
        ahead_ms=0,
    )
    (part,) = load_part(work, [msgspec.json.encode(Line(id=0, row=msgspec.json.encode(row).decode(), key="1"))])
    assert part.counts == ({"rejected": 1} if part.rejects else {"added": 1})
    return [reason for reject in part.rejects for reason in reject.reasons]


def test_a_flat_row_equals_its_create() -> None:
    row = {
        "due": "2027-01-15T08:00:00Z",
        "url": "https://a.example/",
        "method": "PUT",
        "headers": '{"x-a": "1"}',
        "json": '{"n": 1.0}',
        "label": "7",
        "ordering_key": "cart",
        "flow_key": "customer-1",
        "flow_rate": "0.5",
        "flow_parallelism": 2,
        "timeout_seconds": "2.5",
        "retry_max_attempts": "3",
        "retry_final_statuses": "[404]",
        "retry_base_seconds": 2,
    }
    asked = (
        b'{"due": "2027-01-15T08:00:00Z", "label": "7", "ordering_key": "cart", "timeout_seconds": 2.5, "callback": '
        b'{"url": "https://a.example/", "method": "PUT", "headers": {"x-a": "1"}, "json": {"n": 1.0}, "flow_key": '
        b'"customer-1", "flow_rate": 0.5, "flow_parallelism": 2}, '
        b'"retry": {"max_attempts": 3, "final_statuses": [404], "base_seconds": 2}}'
    )
    found = FLAT.request(msgspec.json.encode(row).decode(), no_faults)
    wanted = msgspec.json.decode(asked, type=ScheduleRequest)
    assert isinstance(found, ScheduleRequest)
    assert bytes(found.callback.json) == bytes(wanted.callback.json) == b'{"n": 1.0}'
    assert msgspec.json.encode(found) == msgspec.json.encode(wanted)


@pytest.mark.parametrize(
    ("row", "reasons"),
    [
        ('{"url": "u", "label": ""}', ["label: must be a string of length >= 1"]),
        ('{"url": "u", "headers": "no", "json": "{"}', ["headers: is not valid JSON", "json: is not valid JSON"]),
        ('{"url": "u", "headers": "[1]"}', ["headers: must be an object, not an array"]),
        ('{"url": "u", "timeout_seconds": "1_0"}', ["timeout_seconds: must be a number or null, not a string"]),
        ('{"url": "u", "retry_max_attempts": "0"}', ["retry_max_attempts: must be an integer >= 1"]),
        ('{"url": "u", "retry_max_attempts": "nan"}', ["retry_max_attempts: must be an integer or null, not a string"]),
    ],
)  # fmt: skip
def test_reasons_name_columns(row: str, reasons: list[str]) -> None:
    assert faults(FLAT, row) == reasons


def test_a_row_says_where_to_call() -> None:
    neither = "give exactly one of url and destination; neither is given"
    assert refused({"due": IN_AN_HOUR, "url": "https://a.example/"}, flat=True) == []
    assert refused({"due": IN_AN_HOUR}, flat=True) == [f"url: {neither}"]
    assert refused({}, flat=True) == [f"url: {neither}", "due: is required; a delay differs in every run"]
    assert refused({"due": IN_AN_HOUR, "callback": {}}, flat=False) == [f"/callback/url: {neither}"]
    assert refused({"due": IN_AN_HOUR, "label": "", "callback": {}}, flat=False) == [
        "/label: must be a string of length >= 1",
        f"/callback/url: {neither}",
    ]


def test_a_row_may_name_a_destination_of_its_client() -> None:
    named = {"due": IN_AN_HOUR, "destination": "orders", "path": "/17"}
    assert refused(named, flat=True) == []
    assert refused({"due": IN_AN_HOUR, "callback": {"destination": "orders"}}, flat=False) == []
    gone = "there is no destination 'order'"
    assert refused({**named, "destination": "order"}, flat=True) == [f"destination: {gone}"]
    assert refused({"due": IN_AN_HOUR, "callback": {"destination": "order"}}, flat=False) == [
        f"/callback/destination: {gone}"
    ]
    assert refused({**named, "path": "17"}, flat=True) == ["path: must begin with a slash"]


def test_a_row_may_be_due_at_a_local_time() -> None:
    local = {"due_local": "2027-03-28T02:30", "due_timezone": "Europe/Berlin", "due_gap": "skip", "due_fold": "second"}
    row = {"url": "https://a.example/", **local}
    found = FLAT.request(msgspec.json.encode(row).decode(), no_faults)
    assert isinstance(found, ScheduleRequest)
    assert found.due == LocalTime(local="2027-03-28T02:30", timezone="Europe/Berlin", gap="skip", fold="second")
    assert refused(row, flat=True) == ["due_local: is skipped by a change of clocks in Europe/Berlin"]
    assert refused({**row, "due_timezone": "Mars"}, flat=True)[0].startswith("due_timezone: ")
    for both in ({"due": IN_AN_HOUR, **row}, {**row, "due": IN_AN_HOUR}):
        assert refused(both, flat=True) == ["due: give exactly one of due and due_local; both are given"]


def columns(kind: type[msgspec.Struct], prefix: str = "") -> dict[str, str]:
    """The column of each field of a request, by the field's pointer in a create, however deep it is."""
    found: dict[str, str] = {}
    for field in msgspec.structs.fields(kind):
        structs = [one for one in (field.type, *get_args(field.type)) if isclass(one) and issubclass(one, Struct)]
        if not structs or len(get_args(field.type)) > 2:
            found[f"/{field.encode_name}"] = prefix + field.encode_name
        for struct in structs:
            inner = columns(struct, "" if field.name == "callback" else f"{field.name}_")
            found |= {f"/{field.encode_name}{pointer}": column for pointer, column in inner.items()}
    return found


def test_every_field_of_a_create_is_a_column_or_is_refused_by_its_name() -> None:
    known = columns(ScheduleRequest)
    assert {*FLAT_COLUMNS, *NOT_LOADED} == set(known.values())
    assert not FLAT_COLUMNS & NOT_LOADED.keys()
    for pointer, column in known.items():
        assert FLAT.reasons([FieldError(pointer, "is wrong")]) == [f"{column}: is wrong"]
        if column in FLAT_COLUMNS and column != "json":  # which may be anything
            reasons = faults(FLAT, msgspec.json.encode({column: [[]]}).decode())
            assert any(reason.startswith((f"{column}:", f"{column}/")) for reason in reasons), reasons
    given = {"callback": {"url": "https://a.example/"}, "due": IN_AN_HOUR}
    for name, value in (("delay_seconds", 3600), ("key", "cart-17"), ("latest", IN_AN_HOUR)):
        assert name in refused({**given, name: value}, flat=False)[0]
    assert refused({**given, "key": "cart-17"}, flat=False) == [f"/key: {NOT_LOADED['key']}"]


def test_a_line_is_a_create_with_its_key_beside_it() -> None:
    request = LINES.request('{"order id": {"a": 1}, "callback": {"url": "u"}, "label": "l"}', no_faults)
    assert isinstance(request, ScheduleRequest)
    assert (request.label, request.callback.url) == ("l", "u")
    assert faults(LINES, '{"id": 1}')[-1] == "/callback: is required"
    assert faults(LINES, "nothing") == ["the body is not valid JSON: invalid character (byte 4)"]
    by_label = Reader(flat=False, key="label").request('{"callback": {"url": "u"}, "label": "l"}', no_faults)
    assert isinstance(by_label, ScheduleRequest)
    assert by_label.label == "l"


def test_broken_rules_are_reported_with_malformed_fields() -> None:
    found = FLAT.request('{"url": "u", "label": ""}', lambda request: [FieldError("/callback/url", "is bad")])
    assert isinstance(found, Invalid)
    assert FLAT.reasons(found.errors) == ["label: must be a string of length >= 1", "url: is bad"]
    assert FLAT.reasons([FieldError("", "x")] * 25) == [*["x"] * 20, "and 5 more"]


def test_spark_submit_gets_the_operators_rules() -> None:
    nothing = SparkConf(loadDefaults=False)
    assert (submitted_policy(nothing), submitted_bounds(nothing)) == (NetworkPolicy(), ClientBounds())
    assert submitted_secrets(nothing) == SecretSettings()
    conf = SparkConf(loadDefaults=False)
    for name, value in (
        ("network.allow", "10.0.0.0/8, 127.0.0.1"),
        ("network.allow_ports", "443"),
        ("network.schemes", "https"),
        ("clients.horizon_days", "30"),
        ("clients.retry_base_seconds", "1.5"),
        ("secrets.key_ring_file", "/etc/ring"),
        ("secrets.encrypt_headers", "false"),
        ("keyspace", "other"),
    ):
        conf.set(f"spark.minutehand.{name}", value)
    assert submitted_policy(conf) == NetworkPolicy(
        allow=(ip_network("10.0.0.0/8"), ip_network("127.0.0.1")),
        allow_ports=frozenset({443}),
        schemes=frozenset({"https"}),
    )
    assert submitted_bounds(conf) == ClientBounds(horizon_days=30, retry_base_seconds=1.5)
    assert submitted_secrets(conf) == SecretSettings(key_ring_file="/etc/ring", encrypt_headers=False)
    with pytest.raises(ValueError, match=r"secrets.encrypt_headers is 'no'; write true or false"):
        submitted_secrets(SparkConf(loadDefaults=False).set("spark.minutehand.secrets.encrypt_headers", "no"))
    with pytest.raises(ValueError, match=r"spark.minutehand.clients.pollers is no setting; there are "):
        submitted_bounds(SparkConf(loadDefaults=False).set("spark.minutehand.clients.pollers", "3"))


def test_spark_submit_gets_the_login() -> None:
    conf = SparkConf(loadDefaults=False)
    assert submitted_storage(conf) == StorageSettings()
    conf.set("spark.cassandra.connection.host", "a.example,b.example").set("spark.cassandra.connection.port", "9142")
    conf.set("spark.cassandra.auth.username", "jobs").set("spark.cassandra.auth.password", "word")
    conf.set("spark.minutehand.keyspace", "other")
    where = {"contact_points": ("a.example", "b.example"), "port": 9142, "keyspace": "other"}
    assert submitted_storage(conf) == StorageSettings(**where, username="jobs", password="word")
    for name, value in (("password_file", "/word"), ("tls_ca_file", "/ca"), ("tls_check_hostname", "false")):
        conf.set(f"spark.minutehand.cassandra.{name}", value)
    with pytest.raises(ValueError, match=r"tls_ca_file and spark.cassandra.connection.ssl.enabled go together"):
        submitted_storage(conf)
    conf.set("spark.cassandra.connection.ssl.enabled", "true")
    assert submitted_storage(conf) == StorageSettings(
        **where, username="jobs", password_file="/word", tls_ca_file="/ca", tls_check_hostname=False
    )
    with pytest.raises(ValueError, match="tls_check_hostname is 'no'; write true or false"):
        submitted_storage(conf.set("spark.minutehand.cassandra.tls_check_hostname", "no"))
    with pytest.raises(ValueError, match=r"spark.minutehand.cassandra.port is no setting; there are "):
        submitted_storage(conf.set("spark.minutehand.cassandra.port", "1"))


@pytest.mark.parametrize(
    ("nodes", "known"),
    [
        ({}, False),
        ({"a": (15, NodeState.LIVE)}, True),
        ({"a": (15, NodeState.LIVE), "b": (14, NodeState.LIVE)}, False),
        ({"a": (15, NodeState.LIVE), "b": (14, NodeState.LEFT)}, True),
        ({"a": (15, NodeState.LIVE), "dead": (14, NodeState.DRAINING)}, True),
        ({"dead": (14, NodeState.LIVE)}, False),
    ],
)
async def test_rows_are_packed_where_every_node_that_lives_can_read_them(
    nodes: dict[str, tuple[int, NodeState]], known: bool
) -> None:
    members = Storage.over(InMemoryConnection()).members
    for name, (knows, state) in nodes.items():
        incarnation = NodeIncarnation(NodeId(name), IncarnationNumber(1))
        beat = Heartbeat(
            incarnation=incarnation,
            beat=1,
            state=state,
            address="",
            wall_ms=0,
            version="",
            low_watermark=None,
            knows=knows,
        )
        await members.write_heartbeat(beat)
        if name != "dead":
            await members.begin_incarnation(incarnation)
    assert await all_know(members, 15) is known
