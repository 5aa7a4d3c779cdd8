"""Destinations that have a target: served, their calls prepared, their ends read."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from poller_cluster.destinations import ServedTarget, open_all, serve, served, target_of
from poller_cluster.dispatch.outcome import conclude
from poller_cluster.dispatch.receivers import Health, Receivers, health
from poller_cluster.dispatch.request import Prepared, Sender, prepare
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.books import AttemptRecord
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.destinations import (
    Destination,
    StoredDestination,
    decode_destination,
    encode_destination,
)
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import NO_OPTIONS, Undecodable
from scheduler_service.domain.schedules import State
from scheduler_service.domain.targets import JudgedTarget, Target
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import claim, client, result

SHOP = ClientId("shop")
DOCUMENT = Destination(target=Target(kind="box", document={"name": "a"}, address="box://a"), timeout_seconds=3.0)


class Boxes:
    """A kind that admits boxes of one name."""

    def judge(self, document: Any, *, client_id: ClientId) -> JudgedTarget:
        if document != {"name": "a"}:
            raise Invalid([FieldError("/name", "is not known")])
        return JudgedTarget("box://a", means=("box", document["name"], client_id))


def stored(document: Destination) -> StoredDestination:
    return StoredDestination(
        client_id=SHOP,
        name="crm",
        document=encode_destination(document),
        revision=1,
        created_at=UnixMillis(1),
        changed_at=UnixMillis(1),
    )


def test_programs_that_know_no_targets_can_not_decode_it() -> None:
    class Older(msgspec.Struct, kw_only=True):
        url: str

    with pytest.raises(msgspec.ValidationError, match="url"):
        msgspec.json.decode(encode_destination(DOCUMENT), type=Older)
    assert decode_destination(encode_destination(DOCUMENT)) == DOCUMENT
    assert msgspec.json.decode(encode_destination(Destination(url="https://a.test")), type=dict) == {
        "url": "https://a.test"
    }


def test_a_document_without_url_and_target_is_undecodable() -> None:
    with pytest.raises(Undecodable):
        decode_destination("{}")


def test_its_kind_says_what_it_means() -> None:
    opened = open_all([stored(DOCUMENT)], {}, NoEncryption(), {"box": Boxes()})
    destination = serve(opened["crm"], ClientSettings())
    assert (destination.url, destination.locked, destination.channel) == ("box://a", None, None)
    assert destination.target == ServedTarget("box", ("box", "a", SHOP))
    assert destination.settings.timeout_seconds == 3.0


@pytest.mark.parametrize(
    ("kinds", "document", "why"),
    [
        ({}, {"name": "a"}, "there is no kind 'box' here: use one of http"),
        ({"box": Boxes()}, {"name": "b"}, "/name: is not known"),
    ],
)
def test_one_that_is_not_admitted_here_is_locked(kinds: Any, document: Any, why: str) -> None:
    target = Target(kind="box", document=document, address="box://a")
    opened = open_all([stored(Destination(target=target))], {}, NoEncryption(), kinds)
    destination = serve(opened["crm"], ClientSettings())
    assert destination.locked is not None
    assert why in destination.locked
    assert not destination.callable


def prepared(**row: Any) -> Prepared:
    opened = open_all([stored(DOCUMENT)], {}, NoEncryption(), {"box": Boxes()})
    served = client(secrets=(b"s" * 32,), destinations=[serve(opened["crm"], ClientSettings())])
    made = prepare(
        claim(**{"url": "destination://crm", "options": "{}", **row}),
        client=served,
        epoch=7,
        sender=Sender(incarnation="node-1@1", version="1"),
        now=NOW,
    )
    assert isinstance(made, Prepared)
    return made


def test_its_calls_carry_what_all_calls_carry() -> None:
    request = prepared(body=b"{}", url="destination://crm/late?x=1", method="DELETE", ordering_key="order-1").request
    headers = dict(request.headers)
    assert (request.url, request.body, request.timeout_seconds, request.channel) == ("box://a", b"{}", 3.0, None)
    assert (headers["Minutehand-Fence"], headers["Minutehand-Path"]) == ("7", "/late?x=1")
    assert headers["webhook-signature"].startswith("v1,")
    assert request.target is not None
    assert (request.target.kind, request.target.means, request.target.ordering_key) == (
        "box",
        ("box", "a", SHOP),
        "order-1",
    )
    assert request.target.schedule_id == headers["webhook-id"]
    assert UUID(request.target.schedule_id)


def test_without_a_path_there_is_no_header_of_it() -> None:
    assert "Minutehand-Path" not in dict(prepared(body=b"{}").request.headers)


def test_a_success_without_a_status_is_a_delivery() -> None:
    made = result(None)
    outcome = conclude(
        claim(),
        made,
        options=NO_OPTIONS,
        settings=ClientSettings(),
        epoch=1,
        incarnation="node-1@1",
        now=NOW,
        jitter=lambda: 0.0,
    )
    assert (outcome.state, outcome.last_status, outcome.last_error) == (State.DELIVERED, None, None)
    assert health(made) is Health.GOOD
    assert health(result(None, error="unavailable")) is Health.BAD
    assert health(result(None, error="rejected", final=True)) is Health.SILENT


def test_a_target_of_no_destination_is_none() -> None:
    assert target_of(Destination(url="https://a.test"), {}, SHOP) is None


@pytest.mark.parametrize(
    ("status", "error", "delivered"),
    [(204, None, True), (None, None, True), (503, None, False), (None, "timeout", False), (204, "reset", False)],
)
def test_a_recorded_attempt_delivered_without_an_error(status: int | None, error: str | None, delivered: bool) -> None:
    record = AttemptRecord(
        client_id=SHOP,
        schedule_id=claim().row.schedule_id,
        attempt=2,
        started_at=UnixMillis(NOW),
        status=status,
        error=error,
        duration_ms=1,
        excerpt="",
    )
    assert record.delivered is delivered


def test_its_breaker_begins_again_when_the_target_is_another() -> None:
    receivers: Receivers[None] = Receivers(ReceiverSettings(breaker_failures=1), on_free=lambda client_id: None)
    settings = ClientSettings().effective(poller_quota=1)

    def receiver(address: str) -> Any:
        named = served(
            "crm", Destination(target=Target(kind="box", document={}, address=address)), settings, channel=None
        )
        return receivers.of(SHOP, "destination://crm", settings, share=1.0, destinations={"crm": named})

    first = receiver("box://a")
    first.ended(result(None, error="unavailable"), generation=first.started(), now=1.0)
    assert not first.breaker.closed
    assert not receiver("box://a").breaker.closed
    assert receiver("box://b").breaker.closed
