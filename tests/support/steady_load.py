"""Creates at a fixed rate, from threads beside the test; records acknowledgements, refusals and gaps.

Several threads share the rate, so that one that waits for an answer does not stop the others. A refused create is sent
again, as a client would, with a new due, because the old one comes nearer during the wait. So a create whose answer was
lost may have made a schedule that this record does not contain.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from minutehand.client import (
    Callback,
    ClientScope,
    Minutehand,
    MinutehandApiError,
    MinutehandClientError,
    NewSchedule,
    Retry,
    Schedule,
)
from tests.support.processes import Deployment
from tests.support.stages import Stages

_GOLDEN = 0.618033988749895
_THREADS = 4
_BATCH = 3
_FLAKY_EVERY = 20
_RETRY = Retry(base_seconds=2.0)
_PAUSE_SECONDS = 0.25
_UNAVAILABLE = 503
_CALLED_WITHIN_SECONDS = 1.0
_OUTCOMES_SECONDS = 30.0
_SHOWN_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A create that was answered 201 at `at`; `due` and `at` are Unix seconds."""

    schedule_id: str
    due: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A create that was not acknowledged: sent at `began`, refused or given up at `at`, Unix seconds."""

    began: float
    at: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`per_second` schedules, each due `soonest` to `latest` seconds after its request, spread evenly."""

    per_second: float
    soonest: float = 3.0
    latest: float = 20.0


class SteadyLoad:
    """A running load, made by `steady_load`. Its records are complete once it has been stopped."""

    def __init__(self, cluster: Deployment, client_id: str, key: str, *, rate: Rate) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.refusals: list[Refusal] = []
        self.client_id = client_id
        self.key = key
        self._api_url = cluster.api_url
        self._rate = rate
        self._steady = Callback(url=cluster.receiver.url)
        self._flaky = Callback(url=f"{cluster.receiver.url}/flaky")
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(_THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the load; idempotent. Raises the error that ended one of the threads early."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def longest_gap(self, start: float, end: float) -> float:
        """The longest time, in seconds, between `start` and `end` in which no create was acknowledged."""
        return longest_gap([one.at for one in self.acknowledged], start, end)

    def _run(self, number: int) -> None:
        interval = _THREADS * _BATCH / self._rate.per_second
        turn = time.monotonic() + interval * number / _THREADS
        serial = number
        try:
            with Minutehand(self._api_url, self.key, retries=0) as api:
                scope = api.client(self.client_id)
                while not self._over.wait(max(turn - time.monotonic(), 0)):
                    self._create(scope, serial)
                    serial += _THREADS
                    # A create that could not be sent in time is left out, not made up for: the load never comes in a
                    # burst.
                    turn = max(turn + interval, time.monotonic() - interval)
        except BaseException as error:
            self._errors.append(error)

    def _create(self, scope: ClientScope, serial: int) -> None:
        while not self._over.is_set():
            began = time.time()
            batch = [self._schedule(began, serial * _BATCH + number) for number in range(_BATCH)]
            made: list[Schedule] = []
            refused = ""
            try:
                for item in scope.schedules.create_batch(batch):
                    if item.schedule is not None:
                        made.append(item.schedule)
                    else:
                        refused = str(item.problem)
            except MinutehandClientError as error:
                if isinstance(error, MinutehandApiError) and error.status != _UNAVAILABLE:
                    raise
                refused = str(error)
            at = time.time()
            self.acknowledged += [
                Acknowledged(schedule_id=one.schedule_id, due=one.due.timestamp(), at=at) for one in made
            ]
            if not refused:
                return
            self.refusals.append(Refusal(began=began, at=at, reason=refused))
            self._over.wait(_PAUSE_SECONDS)

    def _schedule(self, now: float, serial: int) -> NewSchedule:
        delay = self._rate.soonest + (self._rate.latest - self._rate.soonest) * (serial * _GOLDEN % 1.0)
        due = datetime.fromtimestamp(now, UTC) + timedelta(seconds=delay)
        callback = self._flaky if serial % _FLAKY_EVERY == 0 else self._steady
        return NewSchedule(callback=callback, due=due, retry=_RETRY)


def longest_gap(instants: list[float], start: float, end: float) -> float:
    """The longest time between `start` and `end` in which none of `instants` lies."""
    marks = [start, *sorted(at for at in instants if start < at < end), end]
    return max(after - before for before, after in pairwise(marks))


@contextmanager
def steady_load(cluster: Deployment, client_id: str, key: str, *, rate: Rate) -> Iterator[SteadyLoad]:
    """Run a load until the end of the block."""
    load = SteadyLoad(cluster, client_id, key, rate=rate)
    load.start()
    try:
        yield load
    finally:
        load.stop()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a run. `lines` are for a log, `faults` are violations, a sentence each."""

    lines: tuple[str, ...]
    faults: tuple[str, ...]

    def told(self) -> str:
        """The faults, cut to a readable number."""
        return "\n".join((f"{len(self.faults)} faults:", *self.faults[:_SHOWN_FAULTS]))


def judge(cluster: Deployment, load: SteadyLoad, stages: Stages) -> Verdict:
    """Check that every acknowledged schedule was called and is delivered, and that the calls meet the demands of
    `stages`.

    Waits for schedules that are not due yet; outcomes are written a little after their calls.
    """
    time.sleep(max(max(one.due for one in load.acknowledged) + _CALLED_WITHIN_SECONDS - time.time(), 0))
    with cluster.client(load.client_id, load.key) as client:
        missing = _undelivered(client, load, seconds=_OUTCOMES_SECONDS)
    calls = cluster.receiver.calls()
    acknowledged = {one.schedule_id for one in load.acknowledged}
    uncalled = acknowledged - {call["id"] for call in calls}
    return Verdict(
        (
            f"{len(load.acknowledged)} creates acknowledged, {len(load.refusals)} requests not, {len(calls)} calls",
            *map(str, stages.figures(calls, punctual=acknowledged)),
        ),
        (
            *(f"{schedule_id} was never called" for schedule_id in uncalled),
            *missing,
            *stages.faults(calls, punctual=acknowledged),
        ),
    )


def _undelivered(client: ClientScope, load: SteadyLoad, *, seconds: float) -> list[str]:
    """Wait until every acknowledged schedule is delivered or the time is over; describes those that are not."""
    dues = [one.due for one in load.acknowledged]
    start, end = (datetime.fromtimestamp(at, UTC) for at in (min(dues), max(dues) + 1.0))
    deadline = time.monotonic() + seconds
    while True:
        found = {
            one.schedule_id for one in client.schedules.list(start=start, end=end, state="delivered", page_size=1000)
        }
        missing = [one.schedule_id for one in load.acknowledged if one.schedule_id not in found]
        if not missing:
            return []
        if time.monotonic() > deadline:
            return [_told(client.schedules.get(schedule_id)) for schedule_id in missing]
        time.sleep(1.0)


def _told(schedule: Schedule) -> str:
    flying = ", in flight" if schedule.in_flight else ""
    return (
        f"{schedule.schedule_id} (poller {schedule.poller_id}) due {schedule.due.isoformat()} is {schedule.state}"
        f"{flying}"
        f" after {schedule.attempts} attempts: {schedule.last_status or schedule.last_error or 'no answer'}"
    )
