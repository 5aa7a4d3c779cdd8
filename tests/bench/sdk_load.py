"""Creates through the SDK as a process, so that the SDK's own cost can be separated from all else.

    python -m tests.bench.sdk_load --url URL --key KEY --client ID --receiver URL --out FILE
        [--asynchronous] [--connections N] --seconds S --due-from MS --due-to MS

Closed loop: N threads over one `Minutehand`, or N tasks over one `AsyncMinutehand`, each of which creates its next
schedule when the last one was answered. Dues and figures are those of `tests.bench.load`.
"""

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from minutehand.client import AsyncMinutehand, Callback, Minutehand
from tests.bench.load import BODY_BYTES, Dues, Results, parser


class _Work:
    """The schedules to create, and those created. Time counts from here on, when the SDK is ready."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._dues = Dues(arguments.due_from, arguments.due_to)
        self._began, self._used = time.perf_counter(), time.process_time()
        self._until = self._began + arguments.seconds
        self.callback = Callback(url=arguments.receiver, body="x" * BODY_BYTES)
        self._results = Results(puts=False)
        self._lock = threading.Lock()

    def dues(self) -> Iterator[datetime]:
        """Successive dues while there is time. Each counts as created when the next one is requested."""
        while (began := time.perf_counter()) < self._until:
            with self._lock:
                due = self._dues.next()
            yield datetime.fromtimestamp(due / 1000, UTC)
            with self._lock:
                self._results.seconds.append(time.perf_counter() - began)
                self._results.statuses[b"201"] += 1
                self._results.created += 1

    def summary(self) -> dict[str, Any]:
        return self._results.summary(time.perf_counter() - self._began, time.process_time() - self._used)


def _threads(arguments: argparse.Namespace) -> dict[str, Any]:
    with (
        Minutehand(arguments.url, arguments.key) as api,
        ThreadPoolExecutor(arguments.connections) as pool,
    ):
        schedules, work = api.client(arguments.client).schedules, _Work(arguments)

        def create() -> None:
            for due in work.dues():
                schedules.create(work.callback, due=due)

        for one in [pool.submit(create) for _ in range(arguments.connections)]:
            one.result()
        return work.summary()


async def _tasks(arguments: argparse.Namespace) -> dict[str, Any]:
    async with AsyncMinutehand(arguments.url, arguments.key) as api:
        schedules, work = api.client(arguments.client).schedules, _Work(arguments)

        async def create() -> None:
            for due in work.dues():
                await schedules.create(work.callback, due=due)

        await asyncio.gather(*(create() for _ in range(arguments.connections)))
        return work.summary()


def main() -> None:
    with_sdk = parser()
    with_sdk.add_argument("--asynchronous", action="store_true")
    arguments = with_sdk.parse_args()
    result = asyncio.run(_tasks(arguments)) if arguments.asynchronous else _threads(arguments)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
