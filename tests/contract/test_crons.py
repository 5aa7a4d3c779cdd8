"""Crons: conditional writes that share requests, progress, pages; and their runs."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from cql.cron_rows import month_of, write_item
from cql.decoding import UndecodableRow
from cql.storage import Storage
from membership.conditional import APPLIED, Answer, Applied, Rejected
from scheduler_service.domain.crons.row import (
    Cron,
    CronLabel,
    CronMark,
    CronOptions,
    CronPause,
    CronStanding,
    CronState,
)
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.options import RetryOverride
from tests.contract.conftest import Names
from tests.contract.cron_builders import BEGAN, CALLBACK, cron, progress, run

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 86_400_000
JANUARY, FEBRUARY, MARCH = 1_767_225_600_000, 1_769_904_000_000, 1_772_323_200_000
"""Beginnings of these months of 2026."""
HUGE = msgspec.structs.replace(CALLBACK, body=bytes(range(256)) * 400)
"""A request holds three such crons."""


async def create(storage: Storage, *crons: Cron) -> None:
    answers = await write_all(storage, [(one, None) for one in crons])
    assert answers == [APPLIED] * len(crons)


async def write_all(storage: Storage, writes: Sequence[tuple[Cron, int | None]]) -> list[Answer[Cron | None]]:
    return list(await asyncio.gather(*(storage.crons.write(one, expected_revision=of) for one, of in writes)))


async def stored(storage: Storage, *crons: Cron) -> list[Cron | None]:
    """The stored crons with these ids, which belong to one client."""
    found = await storage.crons.read(crons[0].client_id, [one.cron_id for one in crons], serial=True)
    return [found.get(one.cron_id) for one in crons]


async def test_a_cron_comes_back_whole(storage: Storage, names: Names) -> None:
    options = CronOptions(
        starts_at=BEGAN,
        ends_at=UnixMillis(BEGAN + DAY),
        max_fires=7,
        spread_seconds=30,
        catch_up_seconds=0.5,
        overlap="skip",
        gap="skip",
        fold="both",
        retry=RetryOverride(max_attempts=2),
        timeout_seconds=1.5,
        label="invoices",
    )
    whole = cron(
        names.client(),
        "größe",
        revision=1 << 40,
        options=options,
        state=CronState.PAUSED,
        fires=1 << 33,
        swept=5,
        expanded_through=UnixMillis(BEGAN + 1),
        changed_at=UnixMillis(BEGAN + 2),
        wake_at=UnixMillis(BEGAN + 3),
    )
    asleep = cron(names.client(), wake_at=None)
    assert await stored(storage, whole, asleep) == [None, None]
    await create(storage, whole)
    await create(storage, asleep)
    assert await stored(storage, whole, asleep) == [whole, asleep]
    assert await storage.crons.read(whole.client_id, [whole.cron_id, whole.cron_id]) == {whole.cron_id: whole}
    assert await storage.crons.read(whole.client_id, []) == {}


async def test_a_cron_is_created_once(storage: Storage, names: Names) -> None:
    one = cron(names.client())
    await create(storage, one)
    other = cron(one.client_id, expression="* * * * *")
    assert await storage.crons.write(other, expected_revision=None) == Rejected(one)
    assert await stored(storage, one) == [one]


async def test_a_cron_changes_from_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one = cron(names.client())
    two = cron(one.client_id, revision=2, expression="@hourly", state=CronState.DELETED, wake_at=None)
    assert await storage.crons.write(two, expected_revision=1) == Rejected(None)
    assert await stored(storage, one) == [None]
    await create(storage, one)
    assert await storage.crons.write(two, expected_revision=1) == APPLIED
    assert await stored(storage, one) == [two]
    assert await storage.crons.write(one, expected_revision=1) == Rejected(two)
    assert await stored(storage, one) == [two]


async def test_a_write_that_was_decided_upon_before_a_confirmation_is_rejected(storage: Storage, names: Names) -> None:
    one, other = (cron(names.client(), name) for name in ("a", "b"))
    other = msgspec.structs.replace(other, client_id=one.client_id)
    assert await storage.crons.confirm(one) == Rejected(None)
    await create(storage, one, other)
    confirmed = one
    for times in (1, 2):
        confirmed = msgspec.structs.replace(one, confirmations=times)
        assert await storage.crons.confirm(msgspec.structs.replace(one, confirmations=times - 1)) == APPLIED
        assert await storage.crons.confirm(one) == Rejected(confirmed)
        late, beside = (msgspec.structs.replace(each, revision=2) for each in (one, other))
        assert await write_all(storage, [(late, 1), (beside, times)]) == [Rejected(confirmed), APPLIED]
        assert await stored(storage, one, other) == [confirmed, beside]
        other = beside
    changed = msgspec.structs.replace(confirmed, revision=2)
    assert await storage.crons.write(changed, expected_revision=1) == APPLIED
    assert await stored(storage, one) == [changed]


async def test_many_are_created_at_once(storage: Storage, names: Names) -> None:
    client = names.client()
    crons = [cron(client, f"c{number:03}") for number in range(120)]
    await create(storage, *crons)
    assert await stored(storage, *crons) == crons
    assert await storage.crons.read_page(client, limit=1000) == crons


async def test_one_of_concurrent_creates_of_a_cron_wins(storage: Storage, names: Names) -> None:
    crons = [cron(names.client(), changed_at=UnixMillis(BEGAN + number)) for number in range(12)]
    answers = await write_all(storage, [(one, None) for one in crons])
    (winner,) = [one for one, answer in zip(crons, answers, strict=True) if answer == APPLIED]
    assert sorted(map(repr, answers)) == sorted([repr(APPLIED), *[repr(Rejected(winner))] * 11])
    assert await stored(storage, winner) == [winner]


async def test_who_conflicts_is_rejected_alone(storage: Storage, names: Names) -> None:
    """Creates and changes at once: one has an old revision, one names a cron that exists, one a cron that does not."""
    client = names.client()
    old = [cron(client, f"c{number}", expression="@daily") for number in range(6)]
    await create(storage, *old)
    changed = [cron(client, f"c{number}", revision=2) for number in range(9)]
    expected = [1, 1, 7, 1, None, 1, None, 1, None]
    answers = await write_all(storage, list(zip(changed, expected, strict=True)))
    lost = {2: Rejected(old[2]), 4: Rejected(old[4]), 7: Rejected(None)}
    assert answers == [lost.get(number, APPLIED) for number in range(9)]
    kept = {2: old[2], 4: old[4], 7: None}
    assert await stored(storage, *changed) == [kept.get(number, changed[number]) for number in range(9)]


async def test_creating_existing_crons_rejects_each_of_them(storage: Storage, names: Names) -> None:
    crons = [cron(names.client(), f"c{number}") for number in range(60)]
    await create(storage, *crons)
    assert await write_all(storage, [(one, None) for one in crons]) == [Rejected(one) for one in crons]


async def test_large_crons_are_created_at_once(storage: Storage, names: Names) -> None:
    client = names.client()
    crons = [cron(client, f"c{number}", callback=HUGE) for number in range(7)]
    crons.append(cron(client, "c7", callback=msgspec.structs.replace(CALLBACK, body=bytes(1 << 20))))
    await create(storage, *crons)
    assert await stored(storage, *crons) == crons


async def test_a_cron_that_no_request_carries_is_refused(storage: Storage, names: Names) -> None:
    one = cron(names.client(), callback=msgspec.structs.replace(CALLBACK, body=bytes(7 << 20)))
    with pytest.raises(ContentTooLarge, match="can't be stored"):
        await storage.crons.write(one, expected_revision=None)


async def test_progress_of_many_is_all_or_nothing(storage: Storage, names: Names) -> None:
    client = names.client()
    crons = [cron(client, f"c{number}") for number in range(100)]
    await create(storage, *crons)
    changes = [progress(one) for one in crons]
    changes[1] = progress(crons[1], state=CronState.FINISHED, wake_at=None)
    edited = cron(client, "c99", revision=2)
    assert await storage.crons.write(edited, expected_revision=1) == APPLIED
    assert await storage.crons.advance(client, changes) == Rejected(None)
    assert await stored(storage, *crons) == [*crons[:99], edited]
    assert await storage.crons.advance(client, changes[:99]) == APPLIED
    moved = [
        msgspec.structs.replace(
            one,
            state=change.state,
            expanded_through=change.expanded_through,
            fires=1,
            swept=1,
            wake_at=change.wake_at,
        )
        for one, change in zip(crons[:99], changes, strict=False)
    ]
    assert await stored(storage, *crons) == [*moved, edited]
    assert await storage.crons.advance(client, changes[:99]) == Rejected(None)
    assert await storage.crons.advance(client, [progress(one) for one in moved]) == APPLIED


@pytest.mark.parametrize("other", [{"revision": 2}, {"expanded_through": BEGAN + 1}, {"swept": 1}])
async def test_progress_goes_on_from_what_was_read(storage: Storage, names: Names, other: dict[str, Any]) -> None:
    one = cron(names.client())
    await create(storage, one)
    misread = msgspec.structs.replace(one, **other)
    assert await storage.crons.advance(one.client_id, [progress(misread)]) == Rejected(None)
    assert await stored(storage, one) == [one]


async def test_progress_makes_no_cron(storage: Storage, names: Names) -> None:
    one = cron(names.client())
    assert await storage.crons.advance(one.client_id, [progress(one)]) == Rejected(None)
    assert await stored(storage, one) == [None]
    assert await storage.crons.advance(one.client_id, []) == APPLIED


async def test_progress_is_of_one_client_and_bounded(storage: Storage, names: Names) -> None:
    one, stranger = cron(names.client()), cron(names.client("-b"))
    for changes, wrong in (([progress(stranger)], "of other clients"), ([progress(one)] * 2, "each once")):
        with pytest.raises(ValueError, match=wrong):
            await storage.crons.advance(one.client_id, changes)
    with pytest.raises(ValueError, match="100 crons"):
        await storage.crons.advance(one.client_id, [progress(cron(one.client_id, f"{n}")) for n in range(101)])


async def test_writes_and_progress_at_once(storage: Storage, names: Names) -> None:
    """When a change and a progress start from one revision, the first wins."""
    client = names.client()
    crons = [cron(client, f"c{number}") for number in range(20)]
    await create(storage, *crons)
    calls: list[Any] = []
    for one in crons:
        update = storage.crons.write(cron(client, one.cron_id, revision=2), expected_revision=1)
        calls += [storage.crons.advance(client, [progress(one)]), update]
    answers = await asyncio.gather(*calls)
    assert all(answer == APPLIED for answer in answers[1::2])
    assert all(answer in (APPLIED, Rejected(None)) for answer in answers[::2])
    assert [one.revision for one in await stored(storage, *crons) if one] == [2] * 20


async def test_pages_and_marks_are_in_the_order_of_ids(storage: Storage, names: Names) -> None:
    client = names.client()
    ids = sorted([f"c{number:02}" for number in range(23)] + ["A", "z", "ä", "\U0001f600", "\uffee"])
    crons = [cron(client, name, wake_at=None if name == "z" else UnixMillis(BEGAN + len(name))) for name in ids]
    crons[3] = msgspec.structs.replace(crons[3], state=CronState.DELETED)
    await create(storage, *random.Random(7).sample(crons, len(crons)))
    marks = [CronMark(one.cron_id, one.state, one.wake_at, one.changed_at) for one in crons]
    assert await storage.crons.read_marks(client) == marks
    seen: list[Cron] = []
    seen_marks: list[CronMark] = []
    while page := await storage.crons.read_page(client, after=seen[-1].cron_id if seen else None, limit=10):
        seen += page
        seen_marks += await storage.crons.read_marks(
            client, after=seen_marks[-1].cron_id if seen_marks else None, limit=10
        )
    assert seen == crons
    assert seen_marks == marks
    assert await storage.crons.read_marks(client, after=CronId("\U0001f600")) == []
    assert await storage.crons.read_page(names.client("-nobody")) == []


async def test_labels_and_pauses_are_read_by_page(storage: Storage, names: Names) -> None:
    client = names.client()
    pause = CronPause(at=BEGAN, revision=1, note="moving ä")
    labelled = cron(client, "a", options=CronOptions(label="books", overlap="skip"))
    paused = cron(client, "b", state=CronState.PAUSED, pause=pause)
    stale = cron(client, "c", state=CronState.PAUSED, pause=msgspec.structs.replace(pause, revision=7))
    resumed = cron(client, "d", pause=pause)
    await create(storage, labelled, paused, stale, resumed)
    found = await storage.crons.read_labels(client)
    assert found == [
        CronLabel(CronId("a"), CronState.ACTIVE, "books", None),
        CronLabel(CronId("b"), CronState.PAUSED, None, pause),
        CronLabel(CronId("c"), CronState.PAUSED, None, None),
        CronLabel(CronId("d"), CronState.ACTIVE, None, None),
    ]
    assert await storage.crons.read_labels(client, after=CronId("a"), limit=2) == found[1:3]
    crons = await storage.crons.read(client, [one.cron_id for one in found])
    assert [one.pause for one in crons.values()] == [None, pause, None, None]
    # A write without a pause leaves the stored one, which is not true of the new revision.
    again = msgspec.structs.replace(paused, revision=2, pause=None)
    assert await storage.crons.write(again, expected_revision=1) == APPLIED
    assert (await storage.crons.read(client, [again.cron_id]))[again.cron_id].pause is None
    await spoil(storage, stale, "pause", "[]")
    assert [one.cron_id for one in await storage.crons.read_labels(client)] == ["a", "b", "d"]


async def test_more_are_read_than_fit_a_request(storage: Storage, names: Names) -> None:
    crons = [cron(names.client(), f"c{number:03}") for number in range(130)]
    await create(storage, *crons)
    wanted = [one.cron_id for one in crons]
    assert await storage.crons.read(crons[0].client_id, [*wanted, CronId("nobody")]) == dict(
        zip(wanted, crons, strict=True)
    )
    assert await storage.crons.read_standings(crons[0].client_id, [*wanted, *wanted, CronId("nobody")]) == {
        one.cron_id: CronStanding(one.client_id, one.cron_id, one.revision, one.options.policy) for one in crons
    }


async def test_a_standing_tells_the_revision_and_what_overlaps_do(storage: Storage, names: Names) -> None:
    client = names.client()
    allowing, skipping = cron(client, "allowing"), cron(client, "skipping")
    skipping = msgspec.structs.replace(skipping, options=CronOptions(overlap="skip", label="nightly"))
    await create(storage, allowing, skipping)
    await spoil(storage, allowing, "callback", "{}")
    found = await storage.crons.read_standings(client, [allowing.cron_id, skipping.cron_id])
    assert found == {
        "allowing": CronStanding(client, CronId("allowing"), allowing.revision, "allow"),
        "skipping": CronStanding(client, CronId("skipping"), skipping.revision, "skip"),
    }
    waiting = cron(client, "waiting", options=CronOptions(overlap="skip", waits="buffer_one", pause_after_failures=7))
    await create(storage, waiting)
    standing = (await storage.crons.read_standings(client, [waiting.cron_id]))[waiting.cron_id]
    assert (standing.overlap, standing.pause_after_failures) == ("buffer_one", 7)
    await spoil(storage, skipping, "options", "[]")
    assert list(await storage.crons.read_standings(client, [allowing.cron_id, skipping.cron_id])) == ["allowing"]


@pytest.mark.parametrize(("column", "text"), [("callback", "{}"), ("options", '{"gap": "later"}'), ("state", "future")])
async def test_an_unreadable_cron_hides_no_other(storage: Storage, names: Names, column: str, text: str) -> None:
    client = names.client()
    crons = [cron(client, f"c{number}") for number in range(8)]
    await create(storage, *crons)
    for name in ("c0", "c3", "c4"):
        await spoil(storage, cron(client, name), column, text)
    good = [one for one in crons if one.cron_id not in ("c0", "c3", "c4")]
    with capture_logs() as said:
        assert await storage.crons.read(client, [one.cron_id for one in crons]) == {one.cron_id: one for one in good}
    assert [(line["event"], line["table"]) for line in said] == [("row-undecodable", "crons")] * 3
    # Pages skip such rows and are still full; a short page would look like the last.
    assert await storage.crons.read_page(client, limit=4) == good[:4]
    assert await storage.crons.read_page(client, after=CronId("c2"), limit=3) == good[2:]
    marks = [one.cron_id for one in await storage.crons.read_marks(client)]
    assert marks == [one.cron_id for one in (good if column == "state" else crons)]


async def test_a_write_to_an_unreadable_cron_fails_with_that_reason(storage: Storage, names: Names) -> None:
    client = names.client()
    await create(storage, cron(client, "bad"))
    await spoil(storage, cron(client, "bad"), "options", "no JSON")
    calls = [storage.crons.write(cron(client, name), expected_revision=None) for name in ("a", "bad", "b")]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[1], UndecodableRow)
    assert [answers[0], answers[2]] == [APPLIED, APPLIED]


async def spoil(storage: Storage, one: Cron, column: str, text: str) -> None:
    name, parameters = write_item(one, expected_revision=1)
    values = list(parameters)
    values[{"callback": 2, "options": 3, "state": 4, "pause": 13}[column]] = text
    assert isinstance(await storage.connection.conditional([(name, tuple(values))]), Applied)


async def test_months_begin_in_utc() -> None:
    assert [month_of(instant) for instant in (0, JANUARY - 1, JANUARY, FEBRUARY - 1, FEBRUARY, MARCH)] == [
        0,
        JANUARY - 31 * DAY,
        JANUARY,
        JANUARY,
        FEBRUARY,
        MARCH,
    ]


async def runs_of(storage: Storage, client: ClientId, first: int, last: int, **other: Any) -> Sequence[int]:
    found = await storage.crons.read_runs(
        client, CronId("daily"), first=UnixMillis(first), last=UnixMillis(last), **other
    )
    assert all(one == run(client, one.nominal_due, revision=one.revision) for one in found)
    return [one.nominal_due for one in found]


async def test_runs_come_back_in_order_over_the_ends_of_months(storage: Storage, names: Names) -> None:
    client = names.client()
    dues = [JANUARY + number * DAY // 2 for number in range(180)]
    runs = [run(client, due) for due in dues]
    await storage.crons.insert_runs(random.Random(3).sample(runs, len(runs)))
    await storage.crons.insert_runs([run(client, JANUARY, name="other")])
    end = dues[-1]
    assert await runs_of(storage, client, JANUARY, end) == dues
    assert await runs_of(storage, client, JANUARY, end, newest_first=True) == dues[::-1]
    # Both ends are included, whichever month they are in.
    for first, last in ((5, 5), (3, 70), (61, 62), (62, 117), (10, 179)):
        assert await runs_of(storage, client, dues[first], dues[last]) == dues[first : last + 1]
        assert await runs_of(storage, client, dues[first] + 1, dues[last] - 1) == dues[first + 1 : last]
    assert await runs_of(storage, client, end, JANUARY) == []
    assert await runs_of(storage, client, JANUARY - 90 * DAY, JANUARY - 1) == []


async def test_runs_are_read_up_to_a_limit(storage: Storage, names: Names) -> None:
    client = names.client()
    dues = [FEBRUARY + offset for offset in (-3, -2, -1, 0, 1, 2)]
    await storage.crons.insert_runs([run(client, due) for due in dues])
    for due in dues:
        assert await runs_of(storage, client, due, due) == [due]
    for limit in range(1, 8):
        assert await runs_of(storage, client, JANUARY, MARCH, limit=limit) == dues[:limit]
        assert await runs_of(storage, client, JANUARY, MARCH, limit=limit, newest_first=True) == dues[::-1][:limit]


async def test_runs_over_many_years_are_refused(storage: Storage, names: Names) -> None:
    assert await runs_of(storage, names.client(), MARCH - 400 * DAY, MARCH) == []
    with pytest.raises(ValueError, match="400 days"):
        await runs_of(storage, names.client(), MARCH - 401 * DAY, MARCH)


async def test_the_run_of_a_later_revision_wins_also_when_written_first(storage: Storage, names: Names) -> None:
    client = names.client()
    first, second, third = (run(client, JANUARY, revision=revision) for revision in (1, 2, 10))
    january = UnixMillis(JANUARY)
    for written, current in ((second, second), (first, second), (second, second), (third, third), (second, third)):
        await storage.crons.insert_runs([written])
        assert await storage.crons.read_runs(client, CronId("daily"), first=january, last=january) == [current]
    other = [run(client, FEBRUARY, revision=revision) for revision in (4, 3)]
    await storage.crons.insert_runs(other)
    found = await storage.crons.read_runs(client, CronId("daily"), first=january, last=UnixMillis(FEBRUARY))
    assert found == [third, other[0]]


async def test_runs_of_many_crons_are_inserted_at_once(storage: Storage, names: Names) -> None:
    clients = [names.client(f"-{number}") for number in range(40)]
    runs = [run(client, due) for client in clients for due in (JANUARY, JANUARY + 1, FEBRUARY)]
    runs += [run(clients[0], MARCH + number) for number in range(450)]
    for _ in range(2):
        await storage.crons.insert_runs(runs)
    for client in clients[1:]:
        assert await runs_of(storage, client, JANUARY, MARCH) == [JANUARY, JANUARY + 1, FEBRUARY]
    assert len(await runs_of(storage, clients[0], MARCH, MARCH + DAY)) == 450
    await storage.crons.insert_runs([])


async def test_only_a_deleted_cron_without_later_changes_is_removed(storage: Storage, names: Names) -> None:
    client = names.client()
    deleted, active = cron(client, "a", state=CronState.DELETED, wake_at=None), cron(client, "b", wake_at=None)
    for one in (deleted, active):
        assert isinstance(await storage.crons.write(one, expected_revision=None), Applied)
    old, live = await storage.crons.read_marks(client)
    assert isinstance(await storage.crons.remove(client, live), Rejected)
    again = msgspec.structs.replace(deleted, revision=2, changed_at=UnixMillis(deleted.changed_at + 1))
    assert isinstance(await storage.crons.write(again, expected_revision=1), Applied)
    assert isinstance(await storage.crons.remove(client, old), Rejected)
    (present, _) = await storage.crons.read_marks(client)
    assert isinstance(await storage.crons.remove(client, present), Applied)
    assert isinstance(await storage.crons.remove(client, present), Rejected)
    assert [mark.cron_id for mark in await storage.crons.read_marks(client)] == ["b"]
    first = cron(client, "a", wake_at=None)
    assert isinstance(await storage.crons.write(first, expected_revision=None), Applied)


async def test_a_callback_encrypted_again_keeps_the_rest_and_needs_its_revision(storage: Storage, names: Names) -> None:
    client = names.client()
    one = cron(client)
    await create(storage, one)
    assert await storage.crons.advance(client, [progress(one)]) == APPLIED
    sealed = msgspec.structs.replace(one, callback=msgspec.structs.replace(CALLBACK, headers="sealed:1:a:AAAA"))
    assert await storage.crons.reseal(sealed) == APPLIED
    (found,) = await stored(storage, one)
    assert found is not None
    assert (found.callback, found.fires, found.wake_at) == (sealed.callback, 1, progress(one).wake_at)
    changed = cron(client, revision=2)
    assert await storage.crons.write(changed, expected_revision=1) == APPLIED
    assert await storage.crons.reseal(sealed) == Rejected(None)
    assert await storage.crons.reseal(cron(client, "none")) == Rejected(None)
    assert await stored(storage, one, cron(client, "none")) == [changed, None]
