"""Calls an API with the client that openapi-python-client has made: `calls.py URL ADMIN_KEY`.

Prints what was answered, one JSON document; each answer is of the type that was generated for it.
"""

import json
import sys
from datetime import timedelta
from typing import Any, TypeVar

from minutehand_api import AuthenticatedClient, Client
from minutehand_api.api.clients import put_client
from minutehand_api.api.crons import put_cron, trigger_cron
from minutehand_api.api.keys import create_key
from minutehand_api.api.schedules import (
    cancel_schedule,
    create_schedule,
    get_schedule,
    list_schedules,
    put_schedule,
    redeliver_schedule,
)
from minutehand_api.api.service import get_problem
from minutehand_api.models import (
    CallbackRequest,
    CallbackRequestHeaders,
    ClientRequest,
    CronRequest,
    CronView,
    KeyRequest,
    NewClientView,
    NewKeyView,
    NoRequest,
    Problem,
    ScheduleRequest,
    ScheduleView,
    ScheduleViewPage,
    Scope,
)

T = TypeVar("T")


def of(type_: type[T], value: Any) -> T:
    assert isinstance(value, type_), value
    return value


def main(url: str, admin_key: str) -> None:
    admin = AuthenticatedClient(base_url=url, token=admin_key)
    of(NewClientView, put_client.sync("shop", client=admin, body=ClientRequest(poller_quota=3)))
    made = of(NewKeyView, create_key.sync("shop", client=admin, body=KeyRequest(scope=Scope.WRITE)))
    shop = AuthenticatedClient(base_url=url, token=made.key)
    stranger = AuthenticatedClient(base_url=url, token="no-key")

    headers = CallbackRequestHeaders.from_dict({"X-Shop": "17"})
    callback = CallbackRequest(url="https://receiver.example/hook", headers=headers, json={"order": 17})
    asked = ScheduleRequest(callback=callback, delay_seconds=90)
    under = '"the order 17"'
    first = create_schedule.sync_detailed("shop", client=shop, body=asked, idempotency_key=under)
    again = create_schedule.sync_detailed("shop", client=shop, body=asked, idempotency_key=under)
    one, same = of(ScheduleView, first.parsed), of(ScheduleView, again.parsed)
    absolute = ScheduleRequest(callback=callback, due=one.due + timedelta(seconds=1))
    other = of(ScheduleView, create_schedule.sync("shop", client=shop, body=absolute))
    day = {"from_": one.due - timedelta(hours=1), "to": one.due + timedelta(hours=1)}
    page = of(ScheduleViewPage, list_schedules.sync("shop", client=shop, limit=1, **day))
    last = of(ScheduleViewPage, list_schedules.sync("shop", client=shop, limit=1, cursor=page.next_cursor))
    listed = page.items + last.items
    keyed = of(ScheduleView, put_schedule.sync("shop", "cart/17", client=shop, body=asked, if_none_match="*"))
    moved = ScheduleRequest(callback=callback, delay_seconds=91)
    cron = CronRequest(expression="30 2 * * *", timezone="Europe/Berlin", callback=callback)
    of(CronView, put_cron.sync("shop", "nightly", client=shop, body=cron))
    of(ScheduleView, cancel_schedule.sync("shop", one.schedule_id, client=shop))
    wrong = ScheduleRequest(callback=CallbackRequest(url="ftp://receiver.example/"), delay_seconds=-1)
    problems = [
        create_schedule.sync("shop", client=stranger, body=asked),
        create_schedule.sync("shop", client=shop, body=wrong),
        create_schedule.sync("shop", client=shop, body=moved, idempotency_key=under),
        redeliver_schedule.sync("shop", one.schedule_id, client=shop, body=NoRequest()),
        put_schedule.sync("shop", "cart/17", client=shop, body=moved, if_none_match="*"),
        get_schedule.sync("other", one.schedule_id, client=shop),
    ]
    answered = {
        "replayed": [first.status_code, again.status_code, one.schedule_id == same.schedule_id],
        "paged": [item.schedule_id == made.schedule_id for item, made in zip(listed, (one, other), strict=True)],
        "key": keyed.key,
        "triggered": of(ScheduleView, trigger_cron.sync("shop", "nightly", client=shop, body=NoRequest())).cron_id,
        "cancelled": of(ScheduleView, get_schedule.sync("shop", one.schedule_id, client=shop)).state,
        "problems": [[found.status, found.type_] for found in (of(Problem, problem) for problem in problems)],
        "faults": sorted(fault.pointer for fault in of(Problem, problems[1]).errors),
        "explained": get_problem.sync_detailed("in-flight", client=Client(base_url=url)).status_code,
    }
    json.dump(answered, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
