"""What a call waited for, as text behind `fired_by`."""

import pytest

from cql.packed import pack_delivery, unpack_delivery
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.domain.waits import Wait, Waits, fired_by_of, read_waits

NODE = "node-1@1763836790000"


def test_waits_are_added_by_cause_and_read_back() -> None:
    waits = Waits()
    waits.add("flow", 200)
    waits.add("ordering", 1_500, behind="a")
    waits.add("flow", 5)
    text = waits.text(NODE)
    assert text == f"{NODE} waited flow=205,ordering=1500/a"
    assert read_waits(text) == [Wait("flow", 205), Wait("ordering", 1_500, "a")]
    assert (fired_by_of(text), waits.leg_ms) == (NODE, 1_705)


def test_the_next_leg_goes_on_from_what_is_stored() -> None:
    waits = Waits(f"{NODE} waited flow=205,ordering=1500/a")
    waits.add("flow", 10)
    assert (waits.leg_ms, waits.text("")) == (10, " waited flow=215,ordering=1500/a")


def test_no_wait_adds_nothing() -> None:
    waits = Waits(NODE)
    waits.add("flow", 0)
    assert waits.text(NODE) == NODE


@pytest.mark.parametrize("text", [None, NODE, f"{NODE} waited ", f"{NODE} waited new", f"{NODE} waited x=-1,y=z"])
def test_what_can_not_be_read_is_left_out(text: str | None) -> None:
    assert read_waits(text) == []
    assert fired_by_of(text) == (None if text is None else NODE)


def test_nobody_has_called_a_row_with_waits_alone() -> None:
    assert fired_by_of(" waited flow=1") is None


def test_a_packed_delivery_keeps_them() -> None:
    outcome = Outcome(
        state=State.DELIVERED,
        attempts=1,
        first_attempt_at=UnixMillis(1),
        finished_at=UnixMillis(2),
        last_status=204,
        fired_by=f"{NODE} waited flow=205",
        fired_epoch=7,
    )
    packed = pack_delivery(outcome)
    assert packed is not None
    assert unpack_delivery(packed) == (1, 1, 204, 7, f"{NODE} waited flow=205")
