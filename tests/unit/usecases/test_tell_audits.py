"""Which clients are told of findings in their books, and what."""

import json
from collections.abc import Sequence

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.audits import Audit, AuditFinding, is_news, new_audit_id, unbalanced_event
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT, EventContent, decode_notice
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.subscriptions import SubscriptionRequest
from scheduler_service.usecases.tell_audits import tell_unbalanced
from tests.support.api import SeededRandomness
from tests.support.virtual_loop import run_virtual

RANDOM = SeededRandomness(3)
HOUR = 3_600_000
NOW = 1_795_834_800_000


def audit(client: str = "shop", *, at: int = NOW, start: int = NOW - HOUR, **findings: int) -> Audit:
    return Audit(
        client_id=ClientId(client),
        audit_id=new_audit_id(at=at, randomness=RANDOM),
        window_start=UnixMillis(start),
        window_end=UnixMillis(NOW),
        findings=findings,
    )


def test_findings_are_an_event_and_none_are_none() -> None:
    assert unbalanced_event(audit()) is None
    found = audit(stranded=2, unindexed=1)
    event = unbalanced_event(found)
    assert event is not None
    assert (event.type, event.at, event.schedule_id) == ("books.unbalanced", NOW, None)
    assert json.loads(event.data) == {
        "from": "2026-11-28T02:00:00.000Z",
        "to": "2026-11-28T03:00:00.000Z",
        "findings": {"stranded": 2, "unindexed": 1},
        "audit_id": str(found.audit_id),
    }


def test_the_same_findings_are_the_same_event_and_others_and_those_of_other_clients_are_not() -> None:
    shown = AuditFinding(kind="stranded", detail="one", due=UnixMillis(NOW))
    told = [
        audit(stranded=1, lost=1),
        audit(lost=1, stranded=1, at=NOW + HOUR, start=NOW - 2 * HOUR),
        audit(stranded=2, lost=1),
        msgspec.structs.replace(audit(stranded=1, lost=1), shown=(shown,)),
        audit("book", stranded=1, lost=1),
    ]
    first, again, *others = [event.event_id for one in told if (event := unbalanced_event(one)) is not None]
    assert again == first
    assert len({first, *others}) == 4


def test_findings_are_news_until_a_report_has_told_them() -> None:
    one, two, three = (AuditFinding(kind="lost", detail="", due=UnixMillis(due)) for due in (1, 2, 3))

    def found(*shown: AuditFinding, beyond: int = 0, told: bool = True) -> Audit:
        return msgspec.structs.replace(audit(lost=len(shown) + beyond), shown=shown, told=told)

    assert is_news(found(one), [])
    assert is_news(found(one), [found(one, told=False)])
    assert is_news(found(one, three), [found(one, two)])
    assert not is_news(found(one, two), [found(three), found(two), found(one)])
    assert not is_news(found(two), [found(one, two)])
    assert not is_news(found(one, beyond=2), [found(one, two, beyond=1)])
    assert is_news(found(one, beyond=3), [found(one, two, beyond=1)])
    assert is_news(msgspec.structs.replace(found(one, beyond=1), findings={"odd": 2}), [found(one, beyond=1)])


class Writes(ScheduleWriter):
    """Keeps what is to be placed."""

    def __init__(self, *, fails: bool = False) -> None:
        self.rows: list[Definition] = []
        self._fails = fails

    async def __call__(self, definition: Definition, **more: object) -> None:
        if self._fails:
            raise StoreUnavailable("planted")
        self.rows.append(definition)


async def storage_of(**clients: Client) -> Storage:
    storage = Storage.over(InMemoryConnection())
    for client in clients.values():
        await storage.clients.create_client(client)
    return storage


def client(name: str, *, feed: bool = True, state: ClientState = ClientState.ACTIVE) -> Client:
    return Client(
        client_id=ClientId(name),
        poller_quota=4,
        poller_ceiling=4,
        state=state,
        settings=ClientSettings(event_feed=feed),
        revision=1,
        created_at=UnixMillis(NOW),
    )


EVENTS = client(EVENTS_CLIENT, feed=False)


async def tell(storage: Storage, audits: Sequence[Audit], writes: Writes) -> list[ClientId]:
    return await tell_unbalanced(audits, clients=storage.clients, reports=storage.audits, writer=writes)


def test_only_clients_with_findings_and_a_feed_are_told() -> None:
    async def told() -> None:
        storage = await storage_of(
            events=EVENTS,
            shop=client("shop"),
            fine=client("fine"),
            held=client("held", state=ClientState.SUSPENDED),
            quiet=client("quiet", feed=False),
            gone=client("gone", state=ClientState.DELETED),
        )
        audits = [audit(name, stranded=1) for name in ("shop", "held", "quiet", "gone", "unknown")]
        writes = Writes()
        answer = await tell(storage, [*audits, audit("fine")], writes)
        assert answer == ["shop", "held"]
        contents = [decode_notice(row.body) for row in writes.rows]
        assert contents == [
            EventContent(client_id=one.client_id, event=event)
            for one in audits[:2]
            if (event := unbalanced_event(one)) is not None
        ]
        assert {row.client_id for row in writes.rows} == {EVENTS_CLIENT}
        assert all(row.poller_id < EVENTS.poller_quota for row in writes.rows)

        marked = {
            name: [one.told for one in await storage.audits.read_page(ClientId(name))] for name in ("shop", "quiet")
        }
        assert marked == {"shop": [True], "quiet": []}

        again = Writes()
        later = [audit(name, stranded=1, at=NOW + HOUR) for name in ("shop", "held")]
        assert await tell(storage, later, again) == []
        assert again.rows == []
        assert all(one.told for one in await storage.audits.read_page(ClientId("shop")))

    run_virtual(told)


def test_nobody_is_told_where_no_program_knows_events() -> None:
    async def told() -> None:
        storage, writes = await storage_of(shop=client("shop")), Writes()
        assert await tell(storage, [audit(stranded=1)], writes) == []
        assert writes.rows == []

    run_virtual(told)


def test_what_could_not_be_placed_is_not_taken_for_told() -> None:
    async def told() -> None:
        storage = await storage_of(events=EVENTS, shop=client("shop"))
        with pytest.raises(StoreUnavailable):
            await tell(storage, [audit(stranded=1)], Writes(fails=True))
        assert await storage.audits.read_page(ClientId("shop")) == []

    run_virtual(told)


def test_nodes_read_the_row_of_a_type_that_they_do_not_know() -> None:
    """As nodes of before read this one."""
    event = unbalanced_event(audit(stranded=1))
    assert event is not None
    later = EventContent(client_id=ClientId("shop"), event=msgspec.structs.replace(event, type="of.tomorrow"))
    assert decode_notice(msgspec.json.encode(later)) == later


def test_subscriptions_take_the_type() -> None:
    asked = {"destination": "book", "events": ["books.unbalanced"]}
    assert msgspec.convert(asked, SubscriptionRequest).events == ("books.unbalanced",)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**asked, "events": ["books.balanced"]}, SubscriptionRequest)
