"""One cluster's producer, over a library that does what a test says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from membership.errors import SettingsInvalid
from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.delivery.targets.ends import End, TargetEnd
from poller_cluster.delivery.targets.kafka.kind import Records
from poller_cluster.delivery.targets.kafka.producer import POLL_SECONDS, KafkaTarget
from poller_cluster.delivery.targets.kafka.settings import ClusterSettings
from tests.support.virtual_clock import VirtualClock
from tests.support.virtual_loop import run_virtual, virtual_loop


class Library:
    """Holds what is produced; a test reports it, and purges report what is held."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.configuration = configuration
        self.held: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self.reports: list[Callable[[], None]] = []
        self.purges: list[tuple[bool, bool]] = []
        self.polls = 0
        self.refuses: KafkaError | None = None

    def produce(self, topic: str, *, value: bytes, key: bytes, headers: Any, on_delivery: Any) -> None:
        self.held.append((value, on_delivery))

        if self.refuses is not None:
            self.held.pop()
            raise KafkaException(self.refuses)

    def report(self, code: int | None, *, fatal: bool = False) -> None:
        """The end of the oldest record."""
        _, done = self.held.pop(0)
        error = None if code is None else KafkaError(code, "", fatal)
        self.reports.append(lambda: done(error, None))

    def purge(self, *, in_queue: bool, in_flight: bool, blocking: bool) -> None:
        self.purges.append((in_queue, in_flight))
        while self.held:
            self.report(KafkaError._PURGE_QUEUE)

    def poll(self, timeout: float) -> int:
        assert timeout == 0
        self.polls += 1
        reports, self.reports = self.reports, []
        for report in reports:
            report()
        return len(reports)


class Bench:
    def __init__(self) -> None:
        self.made: list[Library] = []
        settings = ClusterSettings(brokers=("a:1",), clients=("*",), topic_prefixes=("",))

        def make(configuration: dict[str, Any]) -> Any:
            self.made.append(Library(configuration))
            return self.made[-1]

        self.target = KafkaTarget({"main": settings}, clock=VirtualClock(), make=make)
        self.ends: dict[str, TargetEnd] = {}

    @property
    def library(self) -> Library:
        return self.made[-1]

    def send(self, name: str, may_start: Callable[[], bool] = lambda: True, *, timeout_seconds: float = 30.0) -> None:
        target = TargetCall(kind="kafka", means=Records("main", "orders", None), schedule_id=name)
        request = CallbackRequest(
            method="POST", url="", headers=(), body=name.encode(), timeout_seconds=timeout_seconds, target=target
        )

        def ended(end: TargetEnd) -> None:
            assert name not in self.ends, "a second end"
            self.ends[name] = end

        self.target.send(request, ended, may_start=may_start)

    def held(self) -> list[bytes]:
        return [value for value, _ in self.library.held]


def scenario(test: Callable[[Bench], Any]) -> None:
    async def run() -> None:
        bench = Bench()
        await bench.target.start()
        await test(bench)
        await bench.target.stop()

    run_virtual(run)


def test_reports_are_polled_for_while_records_are_under_way() -> None:
    async def test(bench: Bench) -> None:
        bench.send("a")
        bench.library.report(None)
        assert bench.ends == {}
        await virtual_loop().advance(2 * POLL_SECONDS)
        assert bench.ends["a"].end is End.DONE
        polls = bench.library.polls
        await virtual_loop().advance(10)
        assert bench.library.polls == polls

    scenario(test)


def test_without_trust_what_waits_is_withdrawn_and_the_rest_is_queued_again() -> None:
    async def test(bench: Bench) -> None:
        trusted = True
        bench.send("lost", lambda: trusted)
        bench.send("other")
        await virtual_loop().advance(1)
        assert bench.library.purges == []
        trusted = False
        await virtual_loop().advance(1)
        assert bench.ends["lost"].end is End.WITHDRAWN
        assert bench.library.purges == [(True, False)]
        assert bench.held() == [b"other"]

    scenario(test)


def test_a_record_that_was_sent_is_asked_about_once() -> None:
    """It can't be taken back, so the queue is not purged again and again for it."""

    async def test(bench: Bench) -> None:
        bench.send("sent", lambda: False)
        sent = bench.library.held.pop()
        await virtual_loop().advance(5)
        assert bench.library.purges == [(True, False)]
        bench.library.held.append(sent)
        bench.library.report(None)
        await virtual_loop().advance(1)
        assert bench.ends["sent"].end is End.DONE

    scenario(test)


def test_a_record_is_not_queued_again_after_its_time_out() -> None:
    async def test(bench: Bench) -> None:
        trusted = True
        bench.send("short", timeout_seconds=1)
        bench.send("lost", lambda: trusted)
        await virtual_loop().advance(2)
        trusted = False
        await virtual_loop().advance(1)
        assert bench.ends["short"] == TargetEnd(End.TIMED_OUT, bench.ends["short"].detail, nothing_sent=True)
        assert bench.held() == []

    scenario(test)


@pytest.mark.parametrize("by_report", [True, False])
def test_a_producer_that_the_library_gave_up_is_replaced(by_report: bool) -> None:
    async def test(bench: Bench) -> None:
        bench.send("a")
        bench.send("b")
        first = bench.library
        if by_report:
            first.report(KafkaError._FATAL, fatal=True)
        else:
            first.configuration["error_cb"](KafkaError(KafkaError._FATAL, "", True))
        await virtual_loop().advance(1)
        assert len(bench.made) == 2
        assert (True, True) in first.purges
        assert bench.held()[-1:] == [b"b"]
        for _ in bench.held():
            bench.library.report(None)
        await virtual_loop().advance(1)
        assert bench.ends["b"].end is End.DONE

    scenario(test)


def test_a_producer_that_takes_nothing_any_more_is_replaced() -> None:
    async def test(bench: Bench) -> None:
        bench.send("a")
        bench.library.refuses = KafkaError(KafkaError._FATAL, "", True)
        bench.send("b")
        assert bench.ends["b"].end is End.UNAVAILABLE
        await virtual_loop().advance(1)
        bench.send("c")
        assert bench.held()[-1:] == [b"c"]

    scenario(test)


def test_files_that_the_library_can_not_use_keep_the_process_from_starting(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")
    settings = ClusterSettings(
        brokers=("a:1",), clients=("*",), topic_prefixes=("",), tls=True, tls_ca_file=str(tmp_path / "ca.pem")
    )

    async def start() -> None:
        await KafkaTarget({"main": settings}, clock=VirtualClock()).start()

    with pytest.raises(SettingsInvalid, match="the cluster 'main' can't be used"):
        run_virtual(start)


def test_a_time_out_says_what_the_cluster_said_until_it_works_again() -> None:
    async def test(bench: Bench) -> None:
        bench.library.configuration["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
        for name, code in (("a", KafkaError._MSG_TIMED_OUT), ("b", None), ("c", KafkaError._MSG_TIMED_OUT)):
            bench.send(name)
            bench.library.report(code)
            await virtual_loop().advance(1)
        assert "no broker can be reached" in bench.ends["a"].detail
        assert bench.ends["c"].detail == "no acknowledgement in time"

    scenario(test)


def test_stop_ends_all_records() -> None:
    async def test(bench: Bench) -> None:
        bench.send("queued")
        bench.send("sent")
        bench.library.held.pop()
        await bench.target.stop()
        assert {name: (one.end, one.nothing_sent) for name, one in bench.ends.items()} == {
            "queued": (End.STOPPED, True),
            "sent": (End.STOPPED, False),
        }
        bench.send("late")
        assert bench.ends["late"].nothing_sent

    scenario(test)


def test_what_the_library_may_have_sent_before_is_not_said_to_be_unsent() -> None:
    """It queues again what it had sent when the connection broke."""

    async def test(bench: Bench) -> None:
        bench.send("trusted")
        bench.send("lost", lambda: False)
        bench.library.configuration["error_cb"](KafkaError(KafkaError._TRANSPORT, "a:1: Disconnected"))
        bench.send("behind")
        await virtual_loop().advance(1)
        assert bench.ends == {"lost": TargetEnd(End.STOPPED, bench.ends["lost"].detail, nothing_sent=False)}
        assert bench.held() == [b"trusted", b"behind"]

    scenario(test)
