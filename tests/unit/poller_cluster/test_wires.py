"""The headers of calls that came by another scheduler's wire."""

import pytest

from scheduler_service.domain.options import Headers, ScheduleOptions, encode_headers, encode_options
from scheduler_service.domain.wires import GOSCHEDULER, wire_headers
from tests.unit.poller_cluster.claimed import claim
from tests.unit.poller_cluster.test_callback import headers, prepared

JSON = ("Content-Type", "application/json")
OURS = ("Schedule-Id", "id-1")
WIRED = encode_options(ScheduleOptions(wire=GOSCHEDULER))


def goscheduler(*user: tuple[str, str], cron_id: str | None = None) -> Headers:
    return wire_headers(GOSCHEDULER, user, schedule_id="id-1", cron_id=cron_id)


def test_the_id_and_a_json_content_type_are_added() -> None:
    assert goscheduler(("x-mine", "1")) == (JSON, ("x-mine", "1"), OURS)


def test_a_run_of_a_cron_names_its_cron() -> None:
    assert goscheduler(cron_id="cron-1") == (JSON, OURS, ("Parent-Schedule-Id", "cron-1"))


def test_a_content_type_stays() -> None:
    assert goscheduler(("content-TYPE", "text/plain")) == (("content-TYPE", "text/plain"), OURS)


@pytest.mark.parametrize("name", ["Schedule-Id", "schedule-id"])
def test_an_id_of_the_callers_own_is_replaced(name: str) -> None:
    assert goscheduler((name, "mine")) == (JSON, OURS)


@pytest.mark.parametrize("wire", [None, "of-a-newer-program"])
def test_other_calls_stay_as_they_are(wire: str | None) -> None:
    assert wire_headers(wire, (("Schedule-Id", "mine"),), schedule_id="id-1", cron_id="c") == (("Schedule-Id", "mine"),)


def test_a_call_carries_them_beside_ours() -> None:
    of = claim(options=WIRED, cron_id="cron-1")
    found, without = headers(of), headers(claim(cron_id="cron-1"))
    id_ = str(of.row.schedule_id)
    added = {"Schedule-Id": id_, "Parent-Schedule-Id": "cron-1", "Content-Type": "application/json"}
    assert found == {**without, **added}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_payload_is_not_sent_where_no_body_is(method: str) -> None:
    request = prepared(claim(options=WIRED, method=method, headers=encode_headers(()))).request
    assert (request.method, request.body) == (method, b"")
