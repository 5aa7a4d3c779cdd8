"""Ids of audit entries are ordered by time."""

from scheduler_service.domain.audit_log import EntryId, entry_id_before, first_entry_id, instant_of, last_entry_id
from scheduler_service.domain.ids import compose_schedule_id


def entry_id(at: int, tail: int) -> EntryId:
    return EntryId(compose_schedule_id(due=at, poller_id=0, tail=tail))


def test_audit_entries_have_an_id_right_before_them() -> None:
    assert entry_id_before(entry_id(7, 5)) == entry_id(7, 4)
    assert entry_id_before(first_entry_id(7)) == last_entry_id(6)
    assert first_entry_id(7) < last_entry_id(7) < first_entry_id(8)
    assert instant_of(last_entry_id(7)) == instant_of(first_entry_id(7)) == 7
    assert last_entry_id(7).version == 8
