"""Decodes columns of structured text one row at a time, so that a row that can't be decoded fails alone."""

from enum import StrEnum
from typing import TypeVar

import msgspec

from membership.errors import MinutehandError
from scheduler_service.runtime.logging import get_logger

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_log = get_logger("minutehand.storage")


class UndecodableRow(MinutehandError):
    """A stored row that this version can't read. Other rows are not affected."""


def decode_json(text: str, kind: type[T], *, table: str, key: str) -> T:
    """Raises UndecodableRow. The reason goes to the log, since it may quote stored text."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise undecodable(error, table=table, key=key) from error


def decode_enum(text: str, kind: type[E], *, table: str, key: str) -> E:
    """Raises as `decode_json` does."""
    try:
        return kind(text)
    except ValueError as error:
        raise undecodable(error, table=table, key=key) from error


def decode_enum_or_none(text: str, kind: type[E], *, table: str, key: str) -> E | None:
    """None for a value that this version doesn't know, after logging it."""
    try:
        return decode_enum(text, kind, table=table, key=key)
    except UndecodableRow:
        return None


def undecodable(reason: object, *, table: str, key: str) -> UndecodableRow:
    """What to raise for such a row, after logging why."""
    _log.error("row-undecodable", table=table, row=key, reason=str(reason))
    return UndecodableRow(
        f"The row {key} of table {table} can't be read by this version; see the log, and upgrade or repair it."
    )
