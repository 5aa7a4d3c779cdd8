"""A forecast over whole processes says what the books say, also after they were stopped, and nearly so after a kill."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from minutehand.client import Callback, ClientScope, NewSchedule
from tests.support.processes import Deployment

SHOP = "shop"
BEHIND_SECONDS = 12.0
"""Loads are written every five seconds."""
MINUTES_AHEAD = 90


def by_books(shop: ClientScope, start: datetime) -> dict[datetime, int]:
    end = start + timedelta(minutes=MINUTES_AHEAD)
    found = {one.minute: one.accepted - one.cancelled for one in shop.balance(start=start, end=end, page_size=1000)}
    return {minute: count for minute, count in found.items() if count}


def by_forecast(shop: ClientScope, start: datetime) -> dict[datetime, int]:
    found = shop.forecast(start=start, end=start + timedelta(minutes=MINUTES_AHEAD))
    return {one.minute: one.rows for one in found.minutes() if one.rows}


def until(reached: Callable[[], bool], *, seconds: float = BEHIND_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while not (over := reached()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return over


def fill(shop: ClientScope, start: datetime, receiver: str) -> None:
    """Creates one by one and as a batch, of which some are cancelled and moved."""
    single = [
        shop.schedules.create(Callback(url=receiver), due=start + timedelta(seconds=17 * number))
        for number in range(120)
    ]
    for schedule in single[::4]:
        shop.schedules.cancel(schedule.schedule_id)
    for schedule in single[1::10]:
        shop.schedules.reschedule(schedule.schedule_id, due=start + timedelta(minutes=70))
    shop.schedules.create_batch(
        [NewSchedule(callback=Callback(url=receiver), due=start + timedelta(seconds=3 * at)) for at in range(1000)]
    )


def test_it_says_what_the_books_say(cluster: Deployment) -> None:
    cluster.start_api(processes=2)
    cluster.start_node("a")
    key = cluster.register(SHOP, poller_quota=4)
    start = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=4)
    with cluster.client(SHOP, key) as shop:
        fill(shop, start, cluster.receiver.url)
        assert until(lambda: by_forecast(shop, start) == by_books(shop, start)), (
            by_forecast(shop, start),
            by_books(shop, start),
        )
        books = by_books(shop, start)
        assert sum(books.values()) > 1000
        with cluster.admin() as api:
            assert api.forecast(start=start, end=start + timedelta(minutes=MINUTES_AHEAD)).calls == sum(books.values())
            assert api.forecast().capacity_per_minute > 0
        shop.crons.put("tick", Callback(url=cluster.receiver.url), expression="* * * * *", timezone="UTC")
        assert until(lambda: by_forecast(shop, start) == by_books(shop, start) != books), "the node counts its fires"
        minutes = list(shop.forecast(start=start, end=start + timedelta(minutes=MINUTES_AHEAD)).minutes())
        assert len(minutes) == MINUTES_AHEAD
        expected = sum(by_books(shop, start).values()) + sum(one.fires for one in minutes)
        assert sum(one.calls for one in minutes) == expected == sum(books.values()) + MINUTES_AHEAD

        fill(shop, start, cluster.receiver.url)
        cluster.stop_one("api")
    cluster.start_api()
    with cluster.client(SHOP, key) as shop:
        assert by_forecast(shop, start) == by_books(shop, start), "what a process has counted is written when it stops"
        before = by_books(shop, start)
        fill(shop, start, cluster.receiver.url)
        cluster.programs.pop("api").kill()
    cluster.start_api()
    with cluster.client(SHOP, key) as shop:
        after, foreseen = by_books(shop, start), by_forecast(shop, start)
        placed = sum(after.values()) - sum(before.values())
        assert placed > 1000
        wrong = sum(abs(after.get(minute, 0) - foreseen.get(minute, 0)) for minute in after.keys() | foreseen.keys())
        # What was written in the middle of it may lack creates, cancels, and both halves of moves.
        assert wrong <= placed + 2 * 120
