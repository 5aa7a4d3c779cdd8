"""The phases of the bench. Each returns a flat mapping of figures."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cql.schedule_rows import definition_item
from cql.storage import open_storage
from minutehand.client import NewDestination, NewSubscription
from minutehand.processes.programs import Program, ProgramFailed
from tests.bench.cpu import cpu_seconds
from tests.bench.jvm import watched
from tests.contract.builders import definition
from tests.support.certificates import Authority
from tests.support.processes import Deployment, Receiver
from tests.support.receiver import percentile

Figures = dict[str, Any]
CLIENT = "bench"
QUOTA = 64
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
WEEK_MS = 604_800_000
FAR_MS = 22_000
"""Rows of minutes that begin later than this are created in batches, without a hint for each."""
CREATED_A_MS = 12
"""The least number of such rows created in a millisecond."""
PLAIN_INSERTS = 1_000
NOTICED_SECONDS = 5.0
"""How long after the last call its notice is awaited."""
ARRIVAL_PATIENCE_SECONDS = 60.0
ACK_SECONDS = 600
RECORDED_SECONDS = 3.0
"""How long after the last word the node records what it says, and its follow-ups."""


@dataclass(slots=True)
class Bench:
    """What the phases use. `pids` are the processes whose CPU is reported, by name."""

    deployment: Deployment
    key: str
    directory: Path
    pids: dict[str, int]
    cpu: Figures = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Keys of other clients, by client id."""
    meanwhile: Callable[[], None] = lambda: None
    """A measurement to make while a phase would only wait."""
    sustained: float | None = None
    """Calls a second that were made over two minutes under overload; None: not measured yet."""
    other_receiver: Receiver | None = None
    """Called instead of the deployment's receiver."""
    authority: Authority | None = None
    """The authority that nodes trust; None if nothing is called over TLS."""

    @property
    def receiver(self) -> Receiver:
        return self.other_receiver or self.deployment.receiver

    def load(self, module: str = "load", /, **options: object) -> Figures:
        """Run a load generator to its end; its CPU is counted with that of the others. An option that is True has no
        value; one that is None or False is omitted.
        """
        out = self.directory / "load.json"
        out.unlink(missing_ok=True)
        deployment = self.deployment
        named = {
            "url": deployment.api_url,
            "key": self.key,
            "client": CLIENT,
            "receiver": self.receiver.url,
            "out": out,
            **options,
        }
        arguments = [
            part
            for name, value in named.items()
            if value is not None and value is not False
            for part in (f"--{name.replace('_', '-')}", *(() if value is True else (str(value),)))
        ]
        log_file, module = self.directory / f"{module}.log", f"tests.bench.{module}"
        program = Program("load generator", arguments, log_file=log_file, module=module)
        while program.exit_code() is None:
            time.sleep(0.05)
        program.stop(0.0)
        if not out.exists():
            raise ProgramFailed(f"The load generator failed: {program.last_words()}", f"Its log is {program.log_file}.")
        result: Figures = json.loads(out.read_text(encoding="utf-8"))
        name = module.rpartition(".")[2].removesuffix("_load")
        self.cpu[name] = self.cpu.get(name, 0.0) + result["cpu_seconds"]
        return result

    @contextlib.contextmanager
    def accounting(self) -> Iterator[None]:
        """Add the CPU seconds of every process over the block to `cpu`; those of Cassandra's compilers and collector
        separately, where the system accounts for them.
        """
        self.cpu = {}
        with ExitStack() as watching:
            server = self.pids.get("cassandra")
            threads = None if server is None else watching.enter_context(watched(server))
            before = {name: cpu_seconds(pid) or 0.0 for name, pid in self.pids.items()}
            yield
            self.cpu.update({name: (cpu_seconds(pid) or 0.0) - before[name] for name, pid in self.pids.items()})
        if threads is not None:
            for kind, seconds in threads.used().items():
                self.cpu[f"cassandra {kind}"] = seconds
                self.cpu["cassandra"] -= seconds

    def cpu_per_1000(self, count: int) -> Figures:
        shares = {name: round(seconds / max(count, 1) * 1000, 4) for name, seconds in sorted(self.cpu.items())}
        return {**shares, "all": round(sum(self.cpu.values()) / max(count, 1) * 1000, 4)}

    def await_arrivals(self, expected: int, end_ms: int) -> Figures:
        """The receiver's report when all calls have arrived, or none has for a while."""
        sleep_until(end_ms)
        receiver = self.receiver
        seen, quiet_since = receiver.count(), time.monotonic()
        while seen < expected and time.monotonic() - quiet_since < ARRIVAL_PATIENCE_SECONDS:
            time.sleep(0.5)
            if (now := receiver.count()) > seen:
                seen, quiet_since = now, time.monotonic()
        return receiver.report()


def creates_single(bench: Bench, *, seconds: float, scattered: bool = False) -> Figures:
    """64 connections, one schedule a request."""
    return _creates(bench, connections=64, seconds=seconds, scattered=scattered)


def creates_batched(bench: Bench, *, seconds: float, scattered: bool = False) -> Figures:
    """8 connections, 1,000 schedules a request."""
    return _creates(bench, connections=8, batch=1000, seconds=seconds, scattered=scattered)


def creates_alone(bench: Bench, *, seconds: float) -> Figures:
    """One connection, one schedule a request, so that nothing is shared; and the time of the insert alone."""
    return {**_creates(bench, connections=1, seconds=seconds), "plain_insert_ms": asyncio.run(_plain_insert(bench))}


def creates_keyed(bench: Bench, *, seconds: float) -> Figures:
    """As `creates_single`, with an Idempotency-Key on every request."""
    return _creates(bench, connections=64, seconds=seconds, keyed=True)


def creates_once(bench: Bench, *, seconds: float) -> Figures:
    """As `creates_single`, with a once token on every request, as the SDK sends."""
    return _creates(bench, connections=64, seconds=seconds, once=QUOTA)


def puts_new(bench: Bench, *, seconds: float) -> Figures:
    """As `creates_single`, each under a new key of the client's."""
    return _creates(bench, connections=64, seconds=seconds, own_keys=0)


def puts_again(bench: Bench, *, seconds: float) -> Figures:
    """As `creates_single`, under one of a thousand keys in turn: nearly each one replaces a schedule by a later one."""
    return _creates(bench, connections=64, seconds=seconds, own_keys=1_000)


def creates_sdk(bench: Bench, *, seconds: float, asynchronous: bool) -> Figures:
    """One schedule a request through the SDK, by 8 threads of one process or by 64 tasks."""
    connections = 64 if asynchronous else 8
    return _creates(bench, "sdk_load", connections=connections, seconds=seconds, asynchronous=asynchronous)


async def _plain_insert(bench: Bench) -> Figures:
    """One row after the other through the driver, without group commit and without an API."""
    storage = await open_storage(bench.deployment.storage)
    try:
        took = []
        for number in range(PLAIN_INSERTS):
            row = definition_item(definition("plain", offset=number, tail=number, body=b"x" * 200), packs=True)
            began = time.perf_counter()
            await storage.connection.write(*row)
            took.append((time.perf_counter() - began) * 1000)
    finally:
        await storage.close()
    ordered = sorted(took[PLAIN_INSERTS // 10 :])
    return {"p50": percentile(ordered, 0.50), "p99": percentile(ordered, 0.99)}


def _creates(bench: Bench, module: str = "load", /, *, scattered: bool = False, **options: object) -> Figures:
    """Creates due in an hour and within another one, each 360 ms after the last, so that a thousand in a row share some
    twenty partitions; or over a week in no order, so that hardly two written together share one.
    """
    due = now_ms() + HOUR_MS
    length, dues = (WEEK_MS, "scattered over a week") if scattered else (HOUR_MS, "consecutive over an hour")
    with bench.accounting():
        result = bench.load(module, due_from=due, due_to=due + length, scattered=scattered, **options)
    return {**result, "dues": dues, "cpu_seconds_per_1000": bench.cpu_per_1000(result["created"])}


def calls(
    bench: Bench,
    *,
    count: int,
    over_seconds: float,
    lead_seconds: float,
    meanwhile: Callable[[], None] = lambda: None,
    whole_seconds: bool = False,
    load: Mapping[str, object] = MappingProxyType({}),
    finish: Callable[[int], None] = lambda created: None,
) -> Figures:
    """`count` schedules, created ahead of time, due evenly over a window that begins in `lead_seconds`; with
    `whole_seconds` at the beginnings of its seconds. `meanwhile` is called once they are created. `load`: further
    options of the load generator. `finish` waits, with the number created, for what follows the calls and is to be
    counted.
    """
    receiver = bench.receiver
    receiver.forget()
    start = now_ms() + round(lead_seconds * 1000)
    if whole_seconds:
        start = -(-start // 1000) * 1000
    end = start + round(over_seconds * 1000)
    options: dict[str, object] = {"connections": 4, "batch": 1000, "whole_seconds": whole_seconds, **load}
    created = bench.load(count=count, due_from=start, due_to=end, **options)
    late_creates = now_ms() > start
    meanwhile()
    if now_ms() < start:
        # Calls left by another phase may have arrived until now.
        receiver.forget()
    bench.cpu = {}
    sleep_until(start - 500)
    with bench.accounting():
        report = bench.await_arrivals(created["created"], end)
        finish(created["created"])
    unique, elapsed = report["unique"], (report["last_at"] or 0) - (report["first_at"] or 0)
    return {
        "created": created["created"],
        "created_per_second": created["created_per_second"],
        "created_in_time": not late_creates,
        "dues": f"{'at whole seconds' if whole_seconds else 'evenly'} over {over_seconds:g} s",
        "offered_per_second": round(count / over_seconds, 1),
        "fired_per_second": round(unique / elapsed, 1) if elapsed > 0 else None,
        "lateness_ms": report["lateness_ms"],
        "early": report["early"],
        "lost": created["created"] - unique,
        "repeated": report["repeated"],
        "cpu_seconds_per_1000": bench.cpu_per_1000(unique),
    }


def calls_noticed(bench: Bench, *, count: int, over_seconds: float, lead_seconds: float) -> Figures:
    """As `calls`, and every end is sent as an event to another receiver. The difference to `calls_steady` is the price
    of being told."""
    directory = bench.directory / "book"
    directory.mkdir(exist_ok=True)
    book = Receiver(directory)
    try:
        with bench.deployment.admin() as api:
            client = api.client(CLIENT)
            client.destinations.put("book", NewDestination(url=book.url))
            client.subscriptions.put("all", NewSubscription(destination="book"))
            figures = calls(bench, count=count, over_seconds=over_seconds, lead_seconds=lead_seconds)
            time.sleep(NOTICED_SECONDS)
            client.subscriptions.delete("all")
            client.change_settings({"event_feed": False})
        return {**figures, "notices": book.count()}
    finally:
        book.program.stop(1.0)


def calls_acknowledged(bench: Bench, *, count: int, over_seconds: float, lead_seconds: float) -> Figures:
    """As `calls`, and the receiver takes each by 202 and says at once that it is done. The difference to `calls_steady`
    is the price of an acknowledgement, the receiver's included."""
    before = sum(bench.receiver.words().values())

    def finish(created: int) -> None:
        deadline = time.monotonic() + ARRIVAL_PATIENCE_SECONDS
        while sum(bench.receiver.words().values()) - before < created and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(RECORDED_SECONDS)

    load = {"ack_seconds": ACK_SECONDS}
    figures = calls(bench, count=count, over_seconds=over_seconds, lead_seconds=lead_seconds, load=load, finish=finish)
    return {**figures, "words": bench.receiver.words()}


def calls_below_sustained(bench: Bench, *, part: float, seconds: float, meanwhile_seconds: float) -> Figures:
    """Calls at that part of the sustained rate, from the start of a minute. All are created well before that minute,
    and so early that `meanwhile` has so many seconds.
    """
    assert bench.sustained is not None
    rate = round(bench.sustained * part)
    count = round(rate * seconds)
    created_ms = now_ms() + count // CREATED_A_MS + max(FAR_MS, round(meanwhile_seconds * 1000))
    start = -(-created_ms // MINUTE_MS) * MINUTE_MS
    lead_seconds = (start - now_ms()) / 1000
    figures = calls(bench, count=count, over_seconds=seconds, lead_seconds=lead_seconds, meanwhile=bench.meanwhile)
    return {"sustained_per_second": bench.sustained, **figures}


def now_ms() -> int:
    return round(time.time() * 1000)


def sleep_until(instant_ms: int) -> None:
    time.sleep(max(instant_ms - now_ms(), 0) / 1000)
