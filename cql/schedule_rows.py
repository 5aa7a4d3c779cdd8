"""Schedules as Cassandra holds them: parameters of the statements, and the rows that come back. Pure.

Definitions and outcomes are written as columns or in cells that replace several of them (`packed`), and read in either
form. Only a delivery over a row without outcome is packed; every other outcome is in columns, `attempts` among them. So
for a row without `attempts` the cell `delivery` is the outcome. Over a later outcome in columns it only supplies what
those leave unset (`first_attempt_at`, `fired_by`, `fired_epoch`). A repeated commit may take the other form: its
version lets only one of the two be applied. A row's `revision` and `revised` replace its label and content, in whatever
form those are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from cql.connection import UNSET, AnswerRows, Item, Parameters
from cql.packed import pack_content, pack_delivery, unpack_content, unpack_delivery
from scheduler_service.domain.books import CountedRow
from scheduler_service.domain.ids import MINUTE_MS, Partition, RowKey, ScheduleId, UnixMillis
from scheduler_service.domain.reconciliations import ReviewedRow
from scheduler_service.domain.revisions import label_of
from scheduler_service.domain.schedules import (
    NO_HEADER,
    Content,
    Definition,
    ExternalUpdate,
    Kind,
    Outcome,
    OwnerCommit,
    PartitionHeader,
    Row,
    RowRevision,
    RowWrite,
    State,
    SweptRow,
    WriteRejection,
)

ROW_OVERHEAD_BYTES = 300
"""The server's size of a row without its texts and body: 230 with the fewest columns, 380 with all."""
OUTCOME_BYTES = 250

_ID_BYTES = 16
_HEADER = 3
_STAMP = 2
_ROW_END = _HEADER + len(Row.__struct_fields__)
_FIELDS = Row.__struct_fields__
_KEY_AND_KIND = _FIELDS.index("method")
_CONTENT_END = _FIELDS.index("options") + 1
_NO_CONTENT = (None,) * (_CONTENT_END - _KEY_AND_KIND)
_TO_STATE = _FIELDS.index("state") + 1
_NO_OUTCOME = (None,) * (len(_FIELDS) - _TO_STATE - len(("revision",)))
_TO_CALL = _TO_STATE + len(("next_attempt_at", "reason", "redelivered_at", "revision", "content", "revised"))
_SWEPT = len(SweptRow._fields)


def partition_parameters(partition: Partition) -> Parameters:
    return partition.client_id, partition.poller_id, partition.minute * MINUTE_MS


def definition_item(definition: Definition, *, packs: bool = False) -> Item:
    """The insert of a definition. `packs`: whether every running program can read packed cells. None is bound as unset:
    the cell was never set, so it needs no tombstone."""
    keys = (
        definition.client_id,
        definition.poller_id,
        definition.due // MINUTE_MS * MINUTE_MS,
        definition.due,
        definition.schedule_id,
    )
    content = definition.method, definition.url, definition.headers, definition.body, definition.options
    beside = (
        UNSET if definition.label is None else definition.label,
        UNSET if definition.ordering_key is None else definition.ordering_key,
        UNSET if definition.cron_id is None else definition.cron_id,
        UNSET if definition.nominal_due is None else definition.nominal_due,
        UNSET if definition.rescheduled_from is None else definition.rescheduled_from,
        UNSET if definition.created_at is None else definition.created_at,
        UNSET if definition.origin_due is None else definition.origin_due,
    )
    kind, attempts = definition.kind, definition.attempt_base
    if not packs:
        return "schedules.insert_definition", (*keys, kind.value, *content, *beside, attempts)
    packed = pack_content(*content)
    return "schedules.insert_packed", (
        *keys,
        UNSET if kind is Kind.CALL else kind.value,
        packed,
        *beside,
        attempts or UNSET,
    )


def definition_bytes(definition: Definition) -> int:
    """Approximate bytes of a definition in a request. Texts count as ASCII, which headers and URLs are."""
    return (
        ROW_OVERHEAD_BYTES
        + len(definition.body)
        + len(definition.url)
        + len(definition.headers)
        + len(definition.options)
        + len(definition.label or "")
        + len(definition.ordering_key or "")
        + len(definition.cron_id or "")
    )


def encode_in_flight(ids: Iterable[ScheduleId]) -> bytes:
    """Sorted ids, concatenated, so that a repeated write has equal bytes. Empty: no bytes."""
    return b"".join(sorted(value.bytes for value in ids))


def decode_in_flight(blob: bytes | None) -> frozenset[ScheduleId]:
    if not blob:
        return frozenset()
    starts = range(0, len(blob), _ID_BYTES)
    return frozenset(ScheduleId(UUID(bytes=blob[start : start + _ID_BYTES])) for start in starts)


def header_of(epoch: int | None, version: int | None, edits: UUID | None, in_flight: bytes | None) -> PartitionHeader:
    if epoch is None and version is None and edits is None:
        return NO_HEADER
    return PartitionHeader(epoch, version, decode_in_flight(in_flight), edits)


def row_of(values: Sequence[Any]) -> Row | None:
    """A row from the `read_*` statements; None for the null keys of a partition that has only a header."""
    if values[_HEADER] is None:
        return None
    row = _row(values[_HEADER:_ROW_END], values[_ROW_END + 1], values[_ROW_END + 2])
    return row if (delivery := values[_ROW_END]) is None else _delivered(row, delivery)


def lean_row_of(values: Sequence[Any]) -> Row | None:
    """The same for the `read_*lean*` statements."""
    if values[_HEADER] is None:
        return None
    content_at = _HEADER + _KEY_AND_KIND
    row, delivery = Row(*values[_HEADER:content_at], *_NO_CONTENT, *values[content_at:-1]), values[-1]
    if row.revision is not None:
        row = replace(row, label=label_of(row.revision))
    return row if delivery is None else _delivered(row, delivery)


def row_to_call_of(values: Sequence[Any]) -> Row | None:
    """The same for the `read_*_page_to_call` statements, with or without the header."""
    values = values[-_TO_CALL:]
    if values[0] is None:
        return None
    next_attempt_at, reason, redelivered_at, revision, content, revised = values[_TO_STATE:]
    known = _row((*values[:_TO_STATE], *_NO_OUTCOME, revision), content, revised)
    if known.state is None:
        return known
    return replace(known, next_attempt_at=next_attempt_at, reason=reason, redelivered_at=redelivered_at)


def swept_row_of(values: Sequence[Any]) -> SweptRow | None:
    """The same for the `sweep_*_page` statements."""
    due, schedule_id, kind, created_at, state, first, *others, delivery = values[-_SWEPT - 1 :]
    if due is None:
        return None
    return SweptRow(due, schedule_id, kind, created_at, state, _first_attempt_at(first, delivery), *others)


def counted_row_of(values: Sequence[Any]) -> CountedRow | None:
    """The same for the `count_*_page` statements, after the stamp."""
    due, schedule_id, kind, created_at, state, first, delivery = values[_STAMP:]
    if due is None:
        return None
    return CountedRow(due, schedule_id, kind, created_at, state, _first_attempt_at(first, delivery))


def reviewed_row_of(values: Sequence[Any]) -> ReviewedRow:
    """The same for the `review_*_page` statements, without null keys."""
    *columns, label, revision = values
    return ReviewedRow._make((*columns, label if revision is None else label_of(revision)))


def content_of(
    values: Sequence[Any], content: bytes | None, revised: bytes | None = None, revision: str | None = None
) -> Content:
    """Content from `read_content`: the columns, or the cell that replaces them."""
    if revised is not None:
        content = revised
    method, url, headers, body, options = values if content is None else unpack_content(content)
    return Content(method, url, headers, body, options, revision)


def _row(values: Sequence[Any], content: bytes | None, revised: bytes | None) -> Row:
    """A row from its fields' values, with the content unpacked that replaces them if there is any."""
    if revised is not None:
        label = label_of(values[-1])
        values = (*values[:_KEY_AND_KIND], *unpack_content(revised), label, *values[_CONTENT_END + 1 :])
    elif content is not None:
        values = (*values[:_KEY_AND_KIND], *unpack_content(content), *values[_CONTENT_END:])
    return Row(*values)


def _delivered(row: Row, delivery: str) -> Row:
    if (said := unpack_delivery(delivery)) is None:
        return row
    attempts, first_attempt_at, last_status, fired_epoch, fired_by = said
    packed = row.attempts is None
    return replace(
        row,
        attempts=attempts if packed else row.attempts,
        last_status=last_status if packed else row.last_status,
        first_attempt_at=first_attempt_at if row.first_attempt_at is None else row.first_attempt_at,
        fired_epoch=fired_epoch if row.fired_epoch is None else row.fired_epoch,
        fired_by=fired_by if row.fired_by is None else row.fired_by,
    )


def _first_attempt_at(column: UnixMillis | None, delivery: str | None) -> UnixMillis | None:
    if delivery is None or column is not None or (said := unpack_delivery(delivery)) is None:
        return column
    return said[1]


def commit_items(commit: OwnerCommit, *, packs: bool = False) -> list[Item]:
    """The conditional batch of an owner commit. `packs`: whether every running program can read packed cells."""
    keys = partition_parameters(commit.partition)
    version = (commit.version or 0) + 1
    header = (
        commit.epoch,
        version,
        encode_in_flight(commit.in_flight),
        *keys,
        commit.expect_epoch,
        commit.version,
    )
    if commit.edits_known:
        items: list[Item] = [("schedules.commit", (*header, commit.edits))]
    else:
        items = [("schedules.commit_past_updates", header)]
    for write in commit.writes:
        # If a state is tested, the row may have an outcome in columns already, which would win over `delivery`.
        delivery = pack_delivery(write.outcome) if packs and write.expect_state is None else None
        if delivery is None:
            items.append(outcome_item(keys, write))
        else:
            outcome, key = write.outcome, write.key
            values = outcome.state.value, outcome.finished_at, delivery
            items.append(("schedules.write_delivery", (*values, *keys, key.due, key.schedule_id)))
    items.extend(definition_item(retry_row, packs=packs) for retry_row in commit.retry_rows)
    return items


def commit_bytes(commit: OwnerCommit) -> int:
    """Approximate bytes of its request."""
    return (
        OUTCOME_BYTES * (1 + len(commit.writes))
        + _ID_BYTES * len(commit.in_flight)
        + sum(map(definition_bytes, commit.retry_rows))
    )


def update_items(update: ExternalUpdate) -> list[Item]:
    """The conditional batch of an external update."""
    keys = partition_parameters(update.partition)
    if update.version_known:
        header: Item = ("schedules.update", (update.edits, *keys, update.version))
    else:
        header = ("schedules.update_any_version", (update.edits, *keys))
    return [
        header,
        *(outcome_item(keys, write) for write in update.writes),
        *(_revision_item(keys, revision) for revision in update.revisions),
    ]


def update_bytes(update: ExternalUpdate) -> int:
    """Approximate bytes of its request."""
    return OUTCOME_BYTES * (1 + len(update.writes)) + sum(
        ROW_OVERHEAD_BYTES + revision.content.size + len(revision.revision) for revision in update.revisions
    )


def _revision_item(partition_keys: Parameters, write: RowRevision) -> Item:
    content = write.content
    packed = pack_content(
        content.method or "", content.url or "", content.headers or "", content.body or b"", content.options or ""
    )
    keys = (*partition_keys, write.key.due, write.key.schedule_id)
    return "schedules.revise", (write.revision, packed, *keys, None, write.expect_revision)


def outcome_item(partition_keys: Parameters, write: RowWrite) -> Item:
    """One row's outcome with the conditions on that row."""
    overwrites = write.expect_state is not None and write.expect_state is not State.SCHEDULED
    values = _outcome_parameters(write.outcome, overwrites=overwrites)
    keys = (*partition_keys, write.key.due, write.key.schedule_id)
    if write.expect_state is None:
        return "schedules.write_outcome", (*values, *keys)
    state = None if write.expect_state is State.SCHEDULED else write.expect_state.value
    if write.expect_finished_at is not None:
        return "schedules.write_outcome_if_ended_at", (*values, *keys, state, write.expect_finished_at)
    if write.expect_revision is not msgspec.UNSET:
        return "schedules.write_outcome_if_revision", (*values, *keys, state, write.expect_revision)
    if write.expect_next_attempt_at is None:
        return "schedules.write_outcome_if_state", (*values, *keys, state)
    return "schedules.write_outcome_if_pointing_at", (*values, *keys, state, write.expect_next_attempt_at)


def _outcome_parameters(outcome: Outcome, *, overwrites: bool) -> Parameters:
    """`overwrites`: the row has an outcome, so None deletes the old value, except where an external update does not
    know it and must not lose it, such as the first attempt and the owner that fired. Over no outcome, None needs no
    tombstone."""
    absent = None if overwrites else UNSET
    return (
        outcome.state.value,
        outcome.attempts,
        UNSET if outcome.first_attempt_at is None else outcome.first_attempt_at,
        *(
            absent if value is None else value
            for value in (
                outcome.next_attempt_at,
                outcome.finished_at,
                outcome.last_status,
                outcome.last_error,
                outcome.reason,
            )
        ),
        *(
            UNSET if value is None else value
            for value in (
                outcome.fired_by,
                outcome.fired_epoch,
                outcome.rescheduled_to,
                outcome.redelivered_at,
                outcome.redelivered_after,
            )
        ),
    )


def rejected_header(rows: AnswerRows) -> PartitionHeader:
    """The header in a rejection: each row carries it; without rows there is none."""
    if not rows:
        return NO_HEADER
    first = rows[0]
    return header_of(first["claim_epoch"], first["version"], first["edits"], first["in_flight"])


def write_rejection(
    rows: AnswerRows, writes: Iterable[RowWrite], revisions: Iterable[RowRevision] = ()
) -> WriteRejection:
    """A rejection with every tested row: (None, None) for those that don't exist."""
    met: dict[RowKey, Mapping[str, Any]] = {
        RowKey(row["due"], row["schedule_id"]): row for row in rows if row.get("due") is not None
    }
    tested = [write for write in writes if write.expect_state is not None]
    revised = [write.key for write in tested if write.expect_revision is not msgspec.UNSET]
    revised += [revision.key for revision in revisions]
    states = {
        key: (met[key]["state"], met[key]["next_attempt_at"]) if key in met else (None, None)
        for key in (*(write.key for write in tested), *revised)
    }
    found = {key: met[key]["revision"] if key in met else None for key in revised}
    return WriteRejection(rejected_header(rows), states, found)
