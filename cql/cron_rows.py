"""Crons and their runs as Cassandra holds them: parameters of the statements, and the rows that come back. Pure."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from cql.connection import UNSET, Item, Parameters
from cql.decoding import decode_enum, decode_json, undecodable
from scheduler_service.domain.crons.row import (
    Cron,
    CronCallback,
    CronLabel,
    CronMark,
    CronOptions,
    CronPause,
    CronProgress,
    CronRule,
    CronRun,
    CronStanding,
    CronState,
)

RUN_BYTES = 150
"""Bytes of a run in a request, without the texts of its two ids."""

_CRON_BYTES = 400
_NULLABLE = ("wake_at", "pause")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MORE_THAN_A_MONTH = timedelta(days=32)


def write_item(cron: Cron, *, expected_revision: int | None) -> Item:
    """A write of all columns. For a new cron None needs no tombstone; an earlier pause is left, as it is not true of
    another revision."""
    wake_at = UNSET if cron.wake_at is None and expected_revision is None else cron.wake_at
    return "crons.write", (
        cron.expression,
        cron.timezone,
        _callback_text(cron),
        msgspec.json.encode(cron.options).decode(),
        cron.state.value,
        cron.revision,
        cron.poller_id,
        cron.created_at,
        cron.changed_at,
        cron.expanded_through,
        cron.fires,
        cron.swept,
        wake_at,
        UNSET if cron.pause is None else msgspec.json.encode(cron.pause).decode(),
        cron.client_id,
        cron.cron_id,
        expected_revision,
        cron.confirmations or None,
    )


def confirm_item(cron: Cron) -> Item:
    return "crons.confirm", (
        cron.confirmations + 1,
        cron.client_id,
        cron.cron_id,
        cron.revision,
        cron.confirmations or None,
    )


def reseal_parameters(cron: Cron) -> Parameters:
    return _callback_text(cron), cron.client_id, cron.cron_id, cron.revision


def _callback_text(cron: Cron) -> str:
    return msgspec.json.encode(cron.callback).decode()


def item_bytes(item: Item) -> int:
    """Approximate bytes of a cron in a request. Texts count as ASCII, which the long ones are."""
    return _CRON_BYTES + sum(len(value) for value in item[1] if isinstance(value, str))


def commit_item(change: CronProgress) -> Item:
    cron = change.cron
    return "crons.advance", (
        change.state.value,
        change.expanded_through,
        change.fires,
        change.swept,
        change.wake_at,
        cron.client_id,
        cron.cron_id,
        cron.revision,
        cron.expanded_through,
        cron.swept,
    )


def cron_of(values: Sequence[Any]) -> Cron:
    """Raises UndecodableRow."""
    columns = dict(zip(Cron.__struct_fields__, values, strict=True))
    key = f"{columns['client_id']}/{columns['cron_id']}"
    columns["confirmations"] = columns["confirmations"] or 0
    if missing := [name for name, value in columns.items() if value is None and name not in _NULLABLE]:
        raise undecodable(f"null: {', '.join(missing)}", table="crons", key=key)
    columns["callback"] = decode_json(columns["callback"], CronCallback, table="crons", key=key)
    columns["options"] = decode_json(columns["options"], CronOptions, table="crons", key=key)
    columns["state"] = decode_enum(columns["state"], CronState, table="crons", key=key)
    columns["pause"] = _pause(columns["pause"], columns["state"], columns["revision"], key=key)
    return Cron(**columns)


def _pause(text: str | None, state: CronState, revision: int | None, *, key: str) -> CronPause | None:
    if text is None or state is not CronState.PAUSED:
        return None
    pause = decode_json(text, CronPause, table="crons", key=key)
    return pause if pause.revision == revision else None


def mark_of(values: Sequence[Any]) -> CronMark:
    """Raises UndecodableRow."""
    cron_id, state, wake_at, changed_at = values
    return CronMark(cron_id, decode_enum(state, CronState, table="crons", key=cron_id), wake_at, changed_at)


class _Label(msgspec.Struct, frozen=True):
    label: str | None = None


def label_of(values: Sequence[Any]) -> CronLabel:
    """Raises UndecodableRow."""
    cron_id, state_text, revision, options, pause = values
    state = decode_enum(state_text, CronState, table="crons", key=cron_id)
    label = decode_json(options, _Label, table="crons", key=cron_id).label
    return CronLabel(cron_id, state, label, _pause(pause, state, revision, key=cron_id))


def cron_rule_of(values: Sequence[Any]) -> CronRule:
    """Raises UndecodableRow."""
    cron_id, expression, timezone, options, state, *progress = values
    if None in (expression, timezone, options, *progress):
        raise undecodable("null: a column of its rule", table="crons", key=cron_id)
    decoded = decode_json(options, CronOptions, table="crons", key=cron_id)
    decoded_state = decode_enum(state, CronState, table="crons", key=cron_id)
    return CronRule(cron_id, expression, timezone, decoded, decoded_state, *progress)


class _Judged(msgspec.Struct, frozen=True):
    overlap: Literal["allow", "skip"] = "allow"
    waits: Literal["buffer_one", "buffer_all", "cancel_other"] | None = None
    pause_after_failures: int | None = None


def standing_of(values: Sequence[Any]) -> CronStanding:
    """Raises UndecodableRow."""
    client_id, cron_id, revision, options = values
    key = f"{client_id}/{cron_id}"
    if revision is None or options is None:
        raise undecodable("null: revision or options", table="crons", key=key)
    decoded = decode_json(options, _Judged, table="crons", key=key)
    return CronStanding(client_id, cron_id, revision, decoded.waits or decoded.overlap, decoded.pause_after_failures)


def run_parameters(run: CronRun) -> Parameters:
    return (
        run.client_id,
        run.cron_id,
        month_of(run.nominal_due),
        run.nominal_due,
        run.revision,
        run.schedule_id,
        run.revision,
    )


def month_of(instant: int) -> int:
    """The instant at which the UTC month of `instant` begins."""
    return _unix_ms(_month_start(_EPOCH + instant * _MILLISECOND))


def months(first: int, last: int) -> Iterator[int]:
    """The beginning of every month that overlaps [first, last], both inclusive."""
    if first > last:
        return
    month, end = _month_start(_EPOCH + first * _MILLISECOND), _EPOCH + last * _MILLISECOND
    while month <= end:
        yield _unix_ms(month)
        month = _month_start(month + _MORE_THAN_A_MONTH)


def _month_start(instant: datetime) -> datetime:
    return instant.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _unix_ms(instant: datetime) -> int:
    return (instant - _EPOCH) // _MILLISECOND
