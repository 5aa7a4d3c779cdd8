"""Measures what records cost this process: calls to a topic of a real broker, without nodes and Cassandra.

    python -m tests.bench.kafka_cost [--records N] [--in-flight N] [--bytes N] [--partitions N] [--aiokafka]

The target of the kind kafka is real, behind `Deliveries` as in a node, and so is the broker, on the same machine. CPU
time is that of this process, with the threads of the library; the broker's is printed beside it. As many calls are kept
under way as `--in-flight` says. `--aiokafka` sends the same records by aiokafka instead, which has to be installed.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from minutehand.local.kafka import RunningKafka
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.targets.deliveries import Deliveries
from poller_cluster.delivery.targets.kafka.kind import KafkaKind
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import SystemClock
from tests.support.kafka import embedded_kafka, make_topic

HEADERS = tuple((f"Minutehand-Header-{number}", f"value of header {number}") for number in range(10))
WARM_UP = 2_000
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        parts = file.read().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / _TICKS


async def by_target(kafka: RunningKafka, topic: str, body: bytes, in_flight: int) -> Callable[[int], Awaitable[None]]:
    cluster = {"brokers": [kafka.bootstrap_servers], "clients": ["*"], "topic_prefixes": [""]}
    kind, clock = KafkaKind({"clusters": {"main": cluster}}), SystemClock()
    settings = DeliverySettings(max_in_flight=in_flight)
    calls = DeliveryEngine(clock=clock, policy=NetworkPolicy.parse(), settings=settings)
    deliveries = Deliveries(calls=calls, kinds={"kafka": kind}, clock=clock, grace_seconds=0)
    await deliveries.start()
    means = kind.judge({"cluster": "main", "topic": topic}, client_id=ClientId("bench")).means

    async def send(count: int) -> None:
        left, ended, all_ended = count, 0, asyncio.get_running_loop().create_future()

        def start() -> None:
            nonlocal left
            left -= 1
            target = TargetCall(kind="kafka", means=means, schedule_id=f"schedule-{left}")
            request = CallbackRequest(
                method="POST", url="kafka://", headers=HEADERS, body=body, timeout_seconds=30.0, target=target
            )
            deliveries.start_attempt(request, done, may_start=lambda: True)

        def done(result: AttemptResult) -> None:
            nonlocal ended
            assert result.succeeded, result
            ended += 1
            if left:
                start()
            elif ended == count:
                all_ended.set_result(None)

        for _ in range(min(in_flight, count)):
            start()
        await all_ended

    return send


async def by_aiokafka(kafka: RunningKafka, topic: str, body: bytes, in_flight: int) -> Callable[[int], Awaitable[None]]:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-not-found,import-untyped,unused-ignore]

    producer: Any = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True, linger_ms=5, max_batch_size=1_000_000
    )
    await producer.start()
    headers = [(name, value.encode()) for name, value in HEADERS]

    async def send(count: int) -> None:
        left, room = set[Any](), asyncio.Semaphore(in_flight)
        for number in range(count):
            await room.acquire()
            ack = await producer.send(topic, body, key=f"schedule-{number}".encode(), headers=headers)
            left.add(ack)
            ack.add_done_callback(lambda one: (left.discard(one), room.release()))
        await producer.flush()

    return send


async def measure(arguments: argparse.Namespace, kafka: RunningKafka) -> None:
    topic = make_topic(kafka, "bench", partitions=arguments.partitions)
    make = by_aiokafka if arguments.aiokafka else by_target
    send = await make(kafka, topic, b"x" * arguments.bytes, arguments.in_flight)
    await send(WARM_UP)
    for _ in range(3):
        began, own, broker = time.perf_counter(), time.process_time(), cpu_of(kafka.pid)
        await send(arguments.records)
        seconds, thousands = time.perf_counter() - began, arguments.records / 1000
        print(
            f"{arguments.records / seconds:,.0f} records/s durable; for 1,000: "
            f"{(time.process_time() - own) / thousands:.4f} s of CPU here, "
            f"{(cpu_of(kafka.pid) - broker) / thousands:.4f} s of the broker's",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.kafka_cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--in-flight", type=int, default=2_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--aiokafka", action="store_true")
    arguments = parser.parse_args()
    with embedded_kafka() as kafka:
        uvloop.run(measure(arguments, kafka))


if __name__ == "__main__":
    main()
