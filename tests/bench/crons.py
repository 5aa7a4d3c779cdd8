"""The phase about crons: very many, a quarter of them at one minute, another quarter at the next.

    create --> each is woken at once and expanded --> minute 1: spread over 30 s --> minute 2: all at its second 0

The first quarter shows whether a load within the node's capacity is on time, the second how long it takes to work off
one above it. The others, of mixed rules, fire at other minutes or not at all. An hour later the same crons would be
woken over the four minutes before their fire; here all of them are woken as fast as they are created.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from membership.errors import StoreUnavailable
from scheduler_service.domain.crons.row import Cron, CronOptions
from scheduler_service.domain.ids import CronId, ScheduleId, due_of, minute_of
from tests.bench.cpu import memory_mb
from tests.bench.phases import Bench, Figures, now_ms, sleep_until
from tests.support.cassandra import session_of
from tests.support.crons import CronChanges, cron_changes, draft
from tests.support.receiver import percentile

CLIENTS = 8
QUOTA = 16
SPREAD_SECONDS = 30
MINUTE_MS = 60_000
CREATED_AT_ONCE = 24
"""Concurrent creates of each client."""
LEAST_AHEAD_SECONDS = 20.0
WARM_UP = 2_000
"""Crons created beforehand, so that Cassandra's compiler has seen them; they show how long the creation of all takes.
"""
PATIENCE_SECONDS = 120.0
OTHERS = (
    ("{minute} * * * *", 40),
    ("{minute},{later} * * * *", 10),
    ("{minute} {hour} * * *", 30),
    ("{minute} {hour} * * 1-5", 15),
    ("{minute} {hour} 1 * *", 5),
)
"""Rules of the crons that do not fire at the two minutes, with their shares in percent."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
"""They differ by whole hours, so that a minute is the same in all of them."""

Call = dict[str, Any]
_Rule = tuple[str, str, str, int]
"""Id, expression, zone, spread in seconds."""


def crons(bench: Bench, *, count: int) -> Figures:
    """`count` crons of `CLIENTS` clients."""
    bench.deployment.receiver.forget()
    names = [f"crons-{number}" for number in range(CLIENTS)]
    for name in names:
        bench.keys[name] = bench.deployment.register(name, poller_quota=QUOTA, max_crons=1_000_000)
    warm_up = [(f"warm-{number}", "0 0 1 1 *", "UTC", 0) for number in range(WARM_UP)]
    rate = asyncio.run(_create_and_expand(bench, names, warm_up))[0]["expanded_per_second"]
    first = minute_of(now_ms() + round(max(count / rate * 1.25, LEAST_AHEAD_SECONDS) * 1000)) + 1
    figures, made = asyncio.run(_create_and_expand(bench, names, list(_rules(count, first))))
    spread = _called(bench, first * MINUTE_MS, SPREAD_SECONDS * 1000, _context(made, first))
    at_once = _called(bench, (first + 1) * MINUTE_MS, 1, _context(made, first + 1))
    figures |= {
        "placed_before_due_seconds": {
            "spread": _least_lead(bench, names, first, SPREAD_SECONDS * 1000),
            "at_once": _least_lead(bench, names, first + 1, 1),
        },
        "spread": spread,
        "at_once": at_once,
    }
    # Otherwise their next fires would be called during another phase.
    with bench.deployment.admin() as api:
        for name in names:
            api.clients.suspend(name)
    return figures


async def _create_and_expand(bench: Bench, names: list[str], rules: list[_Rule]) -> tuple[Figures, list[Cron]]:
    count = len(rules)
    made: list[Cron] = []
    nodes = {name: pid for name, pid in bench.pids.items() if name.startswith("bench-")}
    memory = {name: memory_mb(pid) or 0.0 for name, pid in nodes.items()}
    before = dict(memory)
    expanded_before = _expanded(bench, nodes)
    with ExitStack() as parts:
        parts.enter_context(bench.accounting())
        async with cron_changes(bench.deployment) as changes:
            began = time.perf_counter()
            own = time.process_time()
            waiting, unanswered = iter(rules), [0]
            await asyncio.gather(
                *(
                    _create(bench, changes, name, waiting, unanswered, made)
                    for name in names
                    for _ in range(CREATED_AT_ONCE)
                )
            )
            created = time.perf_counter() - began
            at_creation = await asyncio.to_thread(_expanded, bench, nodes)
            own = time.process_time() - own
            while (await asyncio.to_thread(_expanded, bench, nodes)) - expanded_before < count:
                if time.perf_counter() - began > PATIENCE_SECONDS + count / 100:
                    break
                for name, pid in nodes.items():
                    memory[name] = max(memory[name], memory_mb(pid) or 0.0)
                await asyncio.sleep(0.1)
            expanded = time.perf_counter() - began
    async with cron_changes(bench.deployment) as looking:
        behind = sum([await _unexpanded(looking, name) for name in names])
    bench.cpu["bench"] = own
    figures = {
        "crons": count,
        "created_per_second": round(count / created, 1),
        "expanded_per_second": round(count / expanded, 1),
        "expanded_after_creation_seconds": round(expanded - created, 2),
        "expanded_while_created": round(at_creation - expanded_before),
        "not_expanded": behind,
        "asked_again": unanswered[0],
        "hints_dropped": changes.dropped[0],
        "cpu_seconds_per_1000": bench.cpu_per_1000(count),
        "memory_mb": {name: [round(before[name]), round(memory[name])] for name in nodes},
    }
    return figures, made


async def _create(
    bench: Bench,
    changes: CronChanges,
    name: str,
    rules: Iterator[_Rule],
    unanswered: list[int],
    made: list[Cron],
) -> None:
    """Create crons; a request without an answer is repeated, as a client would, and counted in `unanswered`."""
    client = await changes.client(name)
    url = bench.deployment.receiver.url
    for cron_id, expression, zone, spread in rules:
        options = CronOptions(spread_seconds=spread)
        wanted = draft(expression, url, timezone=zone, options=options)
        while True:
            try:
                made.append((await changes.change.put(client, CronId(cron_id), wanted)).cron)
                break
            except StoreUnavailable:
                unanswered[0] += 1


def _rules(count: int, first: int) -> Iterator[_Rule]:
    taken = first % 60, (first + 1) % 60
    free = [minute for minute in range(60) if minute not in taken]
    others = [text for text, part in OTHERS for _ in range(part)]
    for number in range(count):
        zone = ZONES[number // 4 % len(ZONES)]
        spread = 0
        match number % 4:
            case 0:
                expression, spread = f"{taken[0]} * * * *", SPREAD_SECONDS
            case 1:
                expression = f"{taken[1]} * * * *"
            case _:
                place = number * 31 % len(free)
                expression = others[number * 7 % len(others)].format(
                    minute=free[place], later=free[(place + 20) % len(free)], hour=number * 13 % 24
                )
        yield f"cron-{number:06}", expression, zone, spread


def _expanded(bench: Bench, nodes: dict[str, int]) -> float:
    return sum(bench.deployment.metrics(name)["minutehand_crons_expanded_total"] for name in nodes)


async def _unexpanded(changes: CronChanges, name: str) -> int:
    """The number of crons not expanded yet."""
    client = await changes.client(name)
    found, after = 0, None
    while page := await changes.storage.crons.read_page(client.client_id, after=after, limit=1000):
        found += sum(cron.swept < cron.revision for cron in page)
        after = page[-1].cron_id
    return found


def _context(made: list[Cron], minute: int) -> int:
    """How many crons fire at that minute and were created before it began."""
    expression = f"{minute % 60} * * * *"
    return sum(cron.expression == expression and cron.created_at < minute * MINUTE_MS for cron in made)


def _called(bench: Bench, start: int, length: int, expected: int) -> Figures:
    """Lateness of the calls due in [start, start + length), and the time of the last one."""
    sleep_until(start + length + 1_000)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(calls := _due_in(bench, start, length)) < expected and time.monotonic() < deadline:
        time.sleep(1.0)
    # The header of a call gives the nominal due; the due after the spread is part of its id.
    late = sorted(call["arrived"] * 1000 - due_of(ScheduleId(UUID(call["id"]))) for call in calls)
    ids = {call["id"] for call in calls}
    return {
        "expected": expected,
        "called": len(calls),
        "lost": expected - len(ids),
        "repeated": len(calls) - len(ids),
        "early": sum(one < 0 for one in late),
        "lateness_ms": {name: percentile(late, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
        "last_after_seconds": round(max(call["arrived"] for call in calls) - start / 1000, 2) if calls else None,
    }


def _due_in(bench: Bench, start: int, length: int) -> list[Call]:
    calls = bench.deployment.receiver.calls()
    return [call for call in calls if start <= due_of(ScheduleId(UUID(call["id"]))) < start + length]


def _least_lead(bench: Bench, names: list[str], minute: int, length: int) -> float | None:
    """The shortest time from the write of a fire of that minute to its due, in seconds, by Cassandra's timestamps."""
    storage = bench.deployment.storage
    least: float | None = None
    with session_of(storage.contact_points[0], storage.port) as session:
        session.set_keyspace(storage.keyspace)
        query = session.prepare(
            "SELECT toUnixTimestamp(due) AS due, writetime(created_at) AS written FROM schedules"
            " WHERE client_id = ? AND poller_id = ? AND minute = ?"
        )
        for name in names:
            for poller in range(QUOTA):
                for row in session.execute(query, (name, poller, minute * MINUTE_MS)):
                    if row.written is not None and row.due < minute * MINUTE_MS + length:
                        lead = row.due / 1000 - row.written / 1e6
                        least = lead if least is None else min(least, lead)
    return None if least is None else round(least, 1)
