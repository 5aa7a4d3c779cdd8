"""Our encoding of a batch equals the driver's."""

from typing import Any, NamedTuple
from uuid import UUID

import pytest
from cassandra import ConsistencyLevel, cqltypes
from cassandra.protocol import BatchMessage, ProtocolHandler, QueryMessage
from cassandra.query import BatchType

from cql.binding import (
    _REMEMBERED_TEXTS,
    _SHORT_TEXT,
    PROTOCOL_VERSION,
    BatchingProtocolHandler,
    Binder,
    EncodedRows,
    _Texts,
)
from cql.connection import UNSET, Parameters


class Column(NamedTuple):
    name: str
    type: Any


class Prepared(NamedTuple):
    query_id: bytes
    column_metadata: list[Column]


KINDS = ("varchar", "int", "bigint", "timestamp", "uuid", "blob", "boolean", "double")
BINDER = Binder(
    Prepared(
        b"0123456789abcdef",
        [
            Column(kind, cqltypes.lookup_casstype_simple(_))
            for kind, _ in zip(
                KINDS,
                ("UTF8Type", "Int32Type", "LongType", "DateType", "UUIDType", "BytesType", "BooleanType", "DoubleType"),
                strict=True,
            )
        ],
    )
)
ROWS: list[Parameters] = [
    ("text", 1, 2, 3, UUID(int=4), b"body", True, 0.5),
    ("", -1, -(2**63), -1, UUID(int=0), b"", False, -0.0),
    ("é☃\U0001f600" * 200, 2**31 - 1, 2**63 - 1, (1 << 48) - 1, UUID(int=(1 << 128) - 1), bytes(70_000), True, 1.5),
    (None, None, None, None, None, None, None, None),
    (UNSET, UNSET, UNSET, UNSET, UNSET, UNSET, UNSET, UNSET),
]


def encode(handler: Any, message: Any) -> bytes:
    encoded = handler.encode_message(message, 513, PROTOCOL_VERSION, None, False)
    assert isinstance(encoded, bytes)
    return encoded


@pytest.mark.parametrize("count", [1, 5, 600])
def test_a_batch_of_encoded_rows_is_what_the_driver_would_write(count: int) -> None:
    rows = (ROWS * count)[:count]
    options = (ConsistencyLevel.LOCAL_QUORUM, ConsistencyLevel.LOCAL_SERIAL, 1_700_000_000_123_456)
    driver = [(True, b"0123456789abcdef", BINDER.values(row)) for row in rows]
    ours = EncodedRows([BINDER.row(row) for row in rows])
    assert encode(BatchingProtocolHandler, BatchMessage(BatchType.UNLOGGED, ours, *options)) == encode(
        ProtocolHandler, BatchMessage(BatchType.UNLOGGED, driver, *options)
    )


def test_everything_else_is_left_to_the_driver() -> None:
    message = QueryMessage("SELECT key FROM system.local", ConsistencyLevel.LOCAL_QUORUM)
    assert encode(BatchingProtocolHandler, message) == encode(ProtocolHandler, message)


@pytest.mark.parametrize(("position", "wrong"), [(0, 1), (0, b"x"), (1, "1"), (1, 2**31), (4, "uuid"), (5, "text")])
def test_wrong_values_are_refused(position: int, wrong: object) -> None:
    row = list(ROWS[0])
    row[position] = wrong
    with pytest.raises(TypeError, match="values don't fit"):
        BINDER.row(tuple(row))


def test_a_wrong_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        BINDER.row(ROWS[0][:-1])


def test_short_texts_are_remembered_and_no_more_than_so_many() -> None:
    texts = _Texts()
    for number in range(2 * _REMEMBERED_TEXTS + 10):
        text = f"https://receiver.example/{number}"
        expected = len(text).to_bytes(4, "big") + text.encode()
        assert texts[text] == texts[text] == expected
        assert len(texts) <= _REMEMBERED_TEXTS
    long = "x" * (_SHORT_TEXT + 1)
    assert texts[long] == len(long).to_bytes(4, "big") + long.encode()
    assert long not in texts
