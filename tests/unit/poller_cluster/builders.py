"""Short builders for a minute's rows, pages and answers, and the steps of its machine one by one.

Instants are written as seconds into the minute: `at(10)`. Rows are numbered; the number makes the id.
"""

from typing import Any, TypeVar
from uuid import UUID

import msgspec

from membership.conditional import APPLIED, Rejected
from poller_cluster.dispatch.job import Claim
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import ReadPage, ReadStrays, Step, SweepPage, WriteCommit
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
    minute_start,
)
from scheduler_service.domain.schedules import (
    Kind,
    Outcome,
    OwnerCommit,
    Page,
    PartitionHeader,
    Row,
    State,
    SweptPage,
    SweptRow,
    WriteRejection,
)
from tests.support.admit_all import AdmitAll

MINUTE = Minute(29_000_000)
PARTITION = Partition(ClientId("shop"), PollerId(3), MINUTE)
EPOCH = 7
OLDER, NEWER = EPOCH - 2, EPOCH + 1
HEADROOM = 1_000
SWEEP = 70.0
"""Seconds from the minute's start to the earliest sweep: its end and the grace."""
PREFETCH = -5.0
EDITS, OTHER_EDITS = UUID(int=1), UUID(int=2)

S = TypeVar("S")


def at(seconds: float) -> UnixMillis:
    return UnixMillis(minute_start(MINUTE) + round(seconds * 1000))


def row(seconds: float, number: int = 0, **columns: Any) -> Row:
    """A defined row without an outcome, due `seconds` into the minute."""
    due = at(seconds)
    blank: dict[str, Any] = dict.fromkeys(Row.__struct_fields__)
    known = {
        "due": due,
        "schedule_id": compose_schedule_id(due=due, poller_id=PARTITION.poller_id, tail=number),
        "kind": Kind.CALL.value,
        "method": "POST",
        "url": "http://127.0.0.1/",
        "created_at": at(-600),
    }
    return Row(**(blank | known | columns))


def retry_row_key(seconds: float, original: Row, **columns: Any) -> Row:
    """The retry row of `original` for the attempt at `seconds`."""
    return msgspec.structs.replace(
        original,
        due=at(seconds),
        kind=Kind.RETRY_ROW.value,
        origin_due=original.due,
        attempt_base=1,
        state=None,
        **columns,
    )


def with_state(known: Row, state: State, **columns: Any) -> Row:
    return msgspec.structs.replace(known, state=state.value, **columns)


def outcome(state: State = State.DELIVERED, **columns: Any) -> Outcome:
    return Outcome(state=state, **({"attempts": 1} | columns))


def page(*rows: Row, header: PartitionHeader | None = None, more: bool = False) -> Page:
    return Page(header or PartitionHeader(), sorted(rows, key=lambda each: each.key), more)


def swept_page(*rows: Row, header: PartitionHeader | None = None, more: bool = False) -> SweptPage:
    """The same page as read by a sweep."""
    whole = page(*rows, header=header, more=more)
    return SweptPage(whole.header, [swept(each) for each in whole.rows], more)


def swept(whole: Row) -> SweptRow:
    return SweptRow(*(getattr(whole, name) for name in SweptRow._fields))


def opened_by(epoch: int, *in_flight: Row, version: int = 1, edits: UUID | None = None) -> PartitionHeader:
    """The header of a partition that `epoch` has opened, with these rows in flight."""
    return PartitionHeader(epoch, version, ids(*in_flight), edits)


def ids(*rows: Row) -> frozenset[ScheduleId]:
    return frozenset(each.schedule_id for each in rows)


def by_key(*rows: Row) -> dict[RowKey, Row]:
    return {each.key: each for each in rows}


def machine(**settings: int) -> PollerMinute:
    return PollerMinute(partition=PARTITION, epoch=EPOCH, settings=MinuteSettings(**settings), admission=AdmitAll())


def reading(
    *rows: Row, header: PartitionHeader | None = None, seconds: float = PREFETCH, **settings: int
) -> PollerMinute:
    """A machine that has read the whole partition once."""
    minute = machine(**settings)
    read(minute, *rows, header=header, seconds=seconds)
    return minute


def read(
    minute: PollerMinute,
    *rows: Row,
    header: PartitionHeader | None = None,
    seconds: float = PREFETCH,
    more: bool = False,
) -> ReadPage | SweepPage:
    """Answer the machine's read with this page; in a sweep, also with the further rows that it then reads."""
    asked = step(minute, seconds)
    if isinstance(asked, ReadPage):
        minute.page_read(page(*rows, header=header, more=more), trusted=True)
        return asked
    assert isinstance(asked, SweepPage), asked
    minute.page_swept(swept_page(*rows, header=header, more=more), trusted=True)
    if isinstance(strays := step(minute, seconds, 0), ReadStrays):
        minute.strays_read(strays.keys, by_key(*rows), trusted=True)
    return asked


def step(minute: PollerMinute, seconds: float, headroom: int = HEADROOM) -> Step:
    return minute.step(at(seconds), headroom)


def expect(kind: type[S], minute: PollerMinute, seconds: float, headroom: int = HEADROOM) -> S:
    """The machine's next step, which must be of this kind."""
    found = step(minute, seconds, headroom)
    assert isinstance(found, kind), found
    return found


def advance(minute: PollerMinute, seconds: float, headroom: int = HEADROOM) -> OwnerCommit:
    """The commit that the machine is about to write, unanswered."""
    return expect(WriteCommit, minute, seconds, headroom).commit


def apply(minute: PollerMinute, seconds: float, headroom: int = HEADROOM) -> OwnerCommit:
    """The commit that the machine is about to write; it is answered 'applied'."""
    written = advance(minute, seconds, headroom)
    minute.committed(APPLIED)
    return written


def claim(minute: PollerMinute, seconds: float, headroom: int = HEADROOM) -> list[Claim]:
    """The claims of the next commit, which is answered 'applied'."""
    apply(minute, seconds, headroom)
    return minute.take_claims()


def rejected(header: PartitionHeader, *rows: Row) -> Rejected[WriteRejection]:
    """A rejection with this header, and these rows as far as a row's state was tested."""
    return Rejected(WriteRejection(header, {each.key: (each.state, each.next_attempt_at) for each in rows}))


def header_expected_by(written: OwnerCommit, *in_flight: Row, edits: UUID | None) -> PartitionHeader:
    """The header that `written` expects, with other `edits`."""
    return PartitionHeader(written.expect_epoch, written.version, ids(*in_flight), edits)
