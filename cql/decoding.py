"""JSON columns, decoded one row at a time: a row that can't be decoded fails alone."""

import logging
from typing import TypeVar

import msgspec

from scheduler_service.domain.errors import MinutehandError

T = TypeVar("T")

_log = logging.getLogger(__name__)


class UndecodableRow(MinutehandError):
    """A stored row that this version can't read. Other rows are not affected."""


def decode_json(text: str, kind: type[T], *, table: str, key: str) -> T:
    """Raises UndecodableRow; the log has the reason, which may quote what was stored."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        _log.error("row-undecodable table=%s key=%s reason=%s", table, key, error)
        raise UndecodableRow(
            f"The row {key} of table {table} can't be read by this version; see the log, and upgrade or repair it."
        ) from error
