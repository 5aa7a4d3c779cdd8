"""The order of a minute's rows where the minute has more rows than fit into memory."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.settings import BackgroundSettings, MinuteSettings
from scheduler_service.domain.schedules import NO_HEADER, Page
from tests.support.api import ManualClock
from tests.support.budgets import budget
from tests.support.node_parts import node_runtime
from tests.unit.poller_cluster.builders import PARTITION, row


class Minute:
    """Replaces the machine, the store and the admission of a minute that waits for order."""

    def __init__(self, *, past: bool) -> None:
        clock, stand_in = ManualClock(), SimpleNamespace()
        self.reads: list[bool] = []
        self.told: list[Any] = []
        self.budget = budget(clock, BackgroundSettings(requests_at_once=1))
        context: Any = SimpleNamespace(
            runtime=node_runtime(clock, budget=self.budget),
            events=None,
            ends=None,
            schedules=SimpleNamespace(read_page=self.read_page),
            writer=stand_in,
            books=stand_in,
            limits=MinuteLimits(MinuteSettings()),
        )
        machine: Any = SimpleNamespace(partition=PARTITION, epoch=1)
        admission: Any = SimpleNamespace(read=self.told.append, whole_read=lambda: self.told.append("whole"))
        self.run = MinuteRun(machine=machine, context=context, admission=admission, past=past)

    async def read_page(self, partition: object, *, lean: bool = False, **where: object) -> Page:
        self.reads.append(lean)
        return Page(header=NO_HEADER, rows=[row(1.0, 1)], more=False)


@pytest.mark.parametrize("past", [False, True])
async def test_it_is_read_without_content_and_in_recovery_within_a_slot(past: bool) -> None:
    minute = Minute(past=past)
    async with minute.budget.slot(PARTITION.client_id):
        reading = asyncio.get_running_loop().create_task(minute.run._read_for_order())
        for _ in range(5):
            await asyncio.sleep(0)
        assert minute.reads == ([] if past else [True])
    await reading
    assert minute.reads == [True]
    assert [type(each).__name__ for each in minute.told] == ["Row", "str"]
