"""UUIDs decoded from answers equal the driver's."""

import copy
import pickle
from typing import Any, cast
from uuid import UUID

from cassandra.cqltypes import Int32Type, UUIDType, lookup_casstype_simple
from cassandra.deserializers import find_deserializer
from hypothesis import given
from hypothesis import strategies as st

from cql.binding import read_quickly


class Prepared:
    def __init__(self, *columns: tuple[Any, ...]) -> None:
        self.result_metadata = list(columns) or None


def quick_type() -> Any:
    prepared = Prepared(("k", "t", "number", Int32Type), ("k", "t", "id", UUIDType))
    read_quickly(cast(Any, prepared))
    assert prepared.result_metadata is not None
    number, (keyspace, table, name, kind) = prepared.result_metadata
    assert number == ("k", "t", "number", Int32Type)
    assert (keyspace, table, name) == ("k", "t", "id")
    return kind


QUICK = quick_type()


@given(st.binary(min_size=16, max_size=16))
def test_quickly_decoded_uuids_are_ordinary_uuids(value: bytes) -> None:
    made, usual = QUICK.from_binary(value, 4), UUID(bytes=value)
    assert type(made) is UUID
    assert (made, hash(made), str(made), made.bytes, made.is_safe) == (
        usual,
        hash(usual),
        str(usual),
        usual.bytes,
        usual.is_safe,
    )
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == usual


def test_the_driver_asks_the_type() -> None:
    assert QUICK is not UUIDType
    assert "_QuickUuid" in repr(find_deserializer(QUICK))
    assert lookup_casstype_simple("UUIDType") is UUIDType, "it is not the driver's own for other statements"


def test_statements_without_columns_are_left_unchanged() -> None:
    prepared = Prepared()
    read_quickly(cast(Any, prepared))
    assert not prepared.result_metadata
