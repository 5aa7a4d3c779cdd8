"""The visible part of the demo of the data pipeline, once the cluster runs."""

import asyncio
import json
import os
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from minutehand.client import AsyncMinutehand, Callback, NewSchedule
from minutehand.errors import LocalError
from minutehand.local.demo.files import DemoDirectory, DemoPlan
from minutehand.local.demo.receiver import Arrival, DemoReceiver
from minutehand.local.demo.show import Say
from minutehand.processes.programs import clean_environment

CLIENT_ID = "orders"
LOADED_QUOTA = 50
SOON_EVERY = 10
"""One order in so many is due too soon for a bulk load, so it goes over the API."""
SOON = timedelta(seconds=90)
SOON_SPREAD = timedelta(seconds=60)
LATER = timedelta(minutes=30)
LATER_SPREAD = timedelta(hours=6)
ITEMS_A_REQUEST = 1_000
CALLS_PATIENCE_SECONDS = 120.0
TELL_SECONDS = 10.0
_STEP = 7_919
"""Milliseconds from one order's due to the next: a prime, for an even spread."""


class PipelineShow:
    """`rows`: the number of orders. Everything that the jobs write is in the folder `OUTPUT` of the demo's
    directory."""

    OUTPUT: ClassVar[str] = "pipeline"

    def __init__(self, directory: DemoDirectory, plan: DemoPlan, *, rows: int, say: Say) -> None:
        self._directory = directory
        self._plan = plan
        self._rows = rows
        self._say = say
        self._output = directory.path / self.OUTPUT
        self._orders = self._output / "orders.parquet"
        self._rejects = self._output / "orders.parquet.rejects"
        self._logs = f"The logs are in {directory.log_file('api').parent}."
        self._began = datetime.now(UTC).replace(microsecond=0)
        self._came: set[str] = set()
        self._lateness: list[float] = []
        self._refused = 0

    def write_orders(self, jars: Sequence[Path]) -> None:
        """Write the input, as another team's job would leave it."""
        from pyspark.sql import functions as F

        from cql.settings import StorageSettings
        from spark.session import SparkSettings, open_session

        settings = SparkSettings(
            storage=StorageSettings(port=self._plan.cassandra_port),
            master="local[*]",
            jars=jars,
        )
        with open_session(settings, name="orders") as session:
            number = F.col("id")
            step = number * _STEP
            after = F.when(number % SOON_EVERY == 0, _in_ms(SOON) + step % _in_ms(SOON_SPREAD)).otherwise(
                _in_ms(LATER) + step % _in_ms(LATER_SPREAD)
            )
            self._began = datetime.now(UTC).replace(microsecond=0)
            orders = session.range(0, self._rows, 1, 4).select(
                F.format_string("order-%08d", number).alias("order_id"),
                F.timestamp_millis(F.lit(round(self._began.timestamp() * 1000)) + after).alias("due"),
                F.lit(self._plan.receiver_url).alias("url"),
                F.format_string('{"order": %d}', number).alias("json"),
                F.lit("order").alias("label"),
            )
            orders.write.parquet(str(self._orders))
        self._say(
            f"{self._rows:,} orders are in {self._orders}; {self._soon:,} of them are due from "
            f"{self._began + SOON:%H:%M:%S} to {self._began + SOON + SOON_SPREAD:%H:%M:%S}, the others later."
        )

    async def run(self) -> None:
        """Everything after the input. Raises LocalError."""
        plan = self._plan
        async with AsyncMinutehand(plan.api_url, plan.admin_key) as admin:
            registered = await admin.clients.register(CLIENT_ID, poller_quota=LOADED_QUOTA)
            client = admin.client(CLIENT_ID)
            key = await client.keys.create()
            for older in () if registered.signing_secret else await client.signing_secrets.list():
                await client.signing_secrets.delete(older.secret_id)
            secret = registered.signing_secret or await client.signing_secrets.create()
        receiver = DemoReceiver(port=plan.receiver_port, secret=secret.secret, on_arrival=self._take)
        await receiver.start()
        try:
            await self._load()
            async with AsyncMinutehand(plan.api_url, key.key) as api:
                await self._create_rejected(api)
                await self._await_callbacks()
                await self._job("archive", "--output", str(self._output / "archive"), "--so-far")
                hours = (self._began.replace(minute=0, second=0) + timedelta(hours=ahead) for ahead in (0, 8))
                start, end = (f"{hour:%Y-%m-%dT%H:%MZ}" for hour in hours)
                await self._job("audit_books", "--from", start, "--to", end, "--client", CLIENT_ID)
                await self._prove(api)
                await self._job("usage")
                await self._job("capacity", "--charts", str(self._output / "charts"))
        finally:
            await receiver.stop()

    @property
    def _soon(self) -> int:
        return -(-self._rows // SOON_EVERY)

    async def _load(self) -> None:
        options = ("--format", "parquet", "--client", CLIENT_ID, "--key", "order_id")
        await self._job("bulk_load", "--input", str(self._orders), *options)

    async def _create_rejected(self, api: AsyncMinutehand) -> None:
        """Create over the API, which takes any due, what the bulk load rejected as due too soon."""
        numbers = sorted(self._rejected())
        if len(numbers) != self._soon:
            raise LocalError(
                f"{len(numbers):,} orders were rejected; those due soon are {self._soon:,}.",
                f"The reasons are in {self._rejects}.",
            )
        schedules = api.client(CLIENT_ID).schedules
        now = datetime.now(UTC)
        wanted = [
            NewSchedule(
                callback=Callback(url=self._plan.receiver_url, json={"order": number}),
                due=max(self._began + timedelta(milliseconds=_after(number)), now),
                label="order",
            )
            for number in numbers
        ]
        for first in range(0, len(wanted), ITEMS_A_REQUEST):
            items = await schedules.create_batch(wanted[first : first + ITEMS_A_REQUEST])
            failed = [item.problem for item in items if item.problem is not None]
            if failed:
                raise LocalError(f"The API refused an order: {failed[0].detail}", self._logs)
        took = (datetime.now(UTC) - now).total_seconds()
        self._say(f"{len(wanted):,} orders that are due too soon for a bulk load went over the API, in {took:.1f} s.")

    def _rejected(self) -> set[int]:
        """The numbers of the orders in the rejects."""
        lines = (
            line for file in self._rejects.rglob("*.json") for line in file.read_text(encoding="utf-8").splitlines()
        )
        return {int(json.loads(line)["key"].removeprefix("order-")) for line in lines}

    async def _await_callbacks(self) -> None:
        deadline = self._began + SOON + SOON_SPREAD + timedelta(seconds=CALLS_PATIENCE_SECONDS)
        while len(self._came) < self._soon:
            if datetime.now(UTC) > deadline:
                raise LocalError(
                    f"{self._soon - len(self._came):,} of {self._soon:,} callbacks did not come in time.",
                    self._logs,
                )
            self._say(f"{len(self._came):,} of {self._soon:,} callbacks came.")
            await asyncio.sleep(TELL_SECONDS)
        centiles = statistics.quantiles(self._lateness, n=100)
        self._say(
            f"All {self._soon:,} callbacks came, {self._refused:,} with a wrong signature; lateness "
            f"p50 {centiles[49] * 1000:.1f} ms, p99 {centiles[98] * 1000:.1f} ms."
        )

    async def _prove(self, api: AsyncMinutehand) -> None:
        """Show the audit as the API shows it to the client."""
        async for audit in api.client(CLIENT_ID).audits():
            counts = audit.counts
            if audit.findings or (counts.accepted, counts.delivered) != (self._rows, self._soon):
                raise LocalError(f"The books are wrong: {audit.findings}, {counts}.", self._logs)
            self._say(
                f"The books are right: {counts.accepted:,} accepted, {counts.delivered:,} delivered, nothing found."
            )
            return
        raise LocalError("The API does not show the audit.", self._logs)

    async def _job(self, job: str, *arguments: str) -> None:
        """Run a command, shown with its output. Raises LocalError when it fails."""
        words = ["spark", "run", job, "--config", str(self._directory.settings), *arguments]
        self._say(f"\n$ minutehand {' '.join(words)}")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "minutehand", *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env=clean_environment(os.environ),
        )  # fmt: skip
        try:
            assert process.stdout is not None
            async for line in process.stdout:
                self._say(f"  {line.decode(errors='replace').rstrip()}")
            if await process.wait():
                raise LocalError(f"The job {job} failed with code {process.returncode}.", self._logs)
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()

    def _take(self, arrival: Arrival) -> None:
        if arrival.callback is None or arrival.lateness_seconds is None:
            self._refused += 1
            return
        self._came.add(arrival.callback.webhook_id)
        self._lateness.append(arrival.lateness_seconds)


def _after(number: int) -> int:
    """Milliseconds from the start to an order's due, as in `PipelineShow.write_orders`."""
    if number % SOON_EVERY == 0:
        return _in_ms(SOON) + number * _STEP % _in_ms(SOON_SPREAD)
    return _in_ms(LATER) + number * _STEP % _in_ms(LATER_SPREAD)


def _in_ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
