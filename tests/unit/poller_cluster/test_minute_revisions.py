"""What a minute holds of a row is that of its last revision, whenever it was revised."""

import msgspec

from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import ReadPage, ReadStrays, RecheckRows, SweepPage, Wait, WriteCommit
from scheduler_service.domain.revisions import Revision
from scheduler_service.domain.schedules import PartitionHeader, Row, State
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    OTHER_EDITS,
    SWEEP,
    advance,
    apply,
    at,
    by_key,
    claim,
    expect,
    header_expected_by,
    opened_by,
    outcome,
    read,
    reading,
    rejected,
    row,
    step,
    swept_page,
    with_state,
)

AT = 20
KNOWN = row(AT, 1)


def revised(known: Row, number: int = 1) -> Row:
    revision = Revision(number, ("a",), f"label {number}")
    return msgspec.structs.replace(known, url=f"http://new{number}/", label=revision.label, revision=revision.text)


def edited(*rows: Row, seconds: float = AT - 1) -> PollerMinute:
    """A machine whose next commit does not test `edits`."""
    minute = reading(*rows, header=PartitionHeader(edits=EDITS))
    written = advance(minute, seconds)
    minute.committed(rejected(header_expected_by(written, edits=OTHER_EDITS)))
    return minute


def opened(*rows: Row) -> PollerMinute:
    """A machine that has opened the partition, and read it long ago."""
    minute = reading(*rows, header=opened_by(EPOCH, edits=EDITS))
    expect(Wait, minute, -4)
    return minute


def test_what_is_claimed_past_an_update_is_called_as_revised() -> None:
    minute = edited(KNOWN)
    apply(minute, AT - 1)
    minute.rechecked(by_key(revised(KNOWN)))
    assert [each.row for each in minute.take_claims()] == [revised(KNOWN)]


def test_follow_ups_have_the_content_of_the_last_revision() -> None:
    """A row that ends unclaimed, as a deferred one does, may be revised until its outcome is written."""
    other = row(AT, 2)
    minute = edited(KNOWN, other)
    entry = minute.rows.get(KNOWN.key)
    assert entry is not None
    minute.rows.end(entry, outcome(State.RETRYING, next_attempt_at=at(90)), at=0)
    apply(minute, AT - 1)
    assert minute.follow_ups.take() == []
    assert step(minute, AT - 1) == RecheckRows((other.key, KNOWN.key))
    written = with_state(revised(KNOWN), State.RETRYING, next_attempt_at=at(90))
    minute.rechecked(by_key(written, other))
    (follow_up,) = minute.follow_ups.take()
    assert (follow_up.definition.url, follow_up.definition.label) == ("http://new1/", "label 1")
    assert [each.row for each in minute.take_claims()] == [other]


def test_a_row_that_is_held_is_replaced_by_a_later_revision_when_it_is_read_again() -> None:
    for found, called in ((revised(KNOWN, 2), revised(KNOWN, 2)), (KNOWN, revised(KNOWN)), (revised(KNOWN),) * 2):
        minute = opened(revised(KNOWN))
        minute.hint(None)
        assert step(minute, 5) == ReadPage(None)
        read(minute, found, seconds=5, header=opened_by(EPOCH, edits=OTHER_EDITS))
        assert [each.row for each in claim(minute, AT)] == [called]


def test_a_claimed_row_stays_as_it_was_claimed() -> None:
    minute = opened(KNOWN)
    assert [each.row for each in claim(minute, AT - 1)] == [KNOWN]
    minute.hint(None)
    read(minute, revised(KNOWN), seconds=AT, header=opened_by(EPOCH, KNOWN))
    minute.unclaimed(KNOWN.key)
    assert [each.row for each in claim(minute, AT)] == [KNOWN]


def test_a_sweep_reads_a_waiting_row_that_was_revised_since() -> None:
    minute = opened(KNOWN, row(AT, 2))
    asked = expect(SweepPage, minute, SWEEP, 0)
    assert asked.after is None
    same, other = row(AT, 2), revised(KNOWN)
    minute.page_swept(swept_page(same, other, header=opened_by(EPOCH, edits=OTHER_EDITS)), trusted=True)
    assert expect(ReadStrays, minute, SWEEP, 0).keys == (KNOWN.key,)
    minute.strays_read([KNOWN.key], by_key(other), trusted=True)
    written = expect(WriteCommit, minute, SWEEP).commit
    assert written.edits == OTHER_EDITS
    apply(minute, SWEEP)
    assert [each.row for each in minute.take_claims()] == [other, same]
