"""Retry rows carry their chain's history, the same from every process."""

import msgspec

from scheduler_service.domain.ids import ClientId, Partition, UnixMillis
from scheduler_service.domain.options import Redelivery, decode_options
from scheduler_service.domain.retry_rows import definition_of, retry_row_of
from scheduler_service.domain.schedules import Definition, Row
from tests.contract.builders import definition, partition

SHOP = ClientId("shop")
OPTIONS = '{"timeout_seconds":2.5}'


def row(of: Definition, **outcome: object) -> Row:
    blank = dict.fromkeys(Row.__struct_fields__)
    columns = {name: value for name, value in msgspec.structs.asdict(of).items() if name in blank}
    return Row(**{**blank, **columns, **outcome})  # type: ignore[arg-type]


def moved(where: Partition, at: UnixMillis) -> Partition:
    return where._replace(minute=type(where.minute)(at // 60_000))


def test_the_retry_rows_of_a_redelivery_are_equal_from_whatever_row_they_are_made() -> None:
    original = definition(SHOP, options=OPTIONS, ordering_key="order")
    first, second = UnixMillis(original.due + 90_000), UnixMillis(original.due + 200_000)
    pointing = row(original, state="retrying", attempts=3, redelivered_at=first, redelivered_after=3)
    one = retry_row_of(definition_of(partition(SHOP), pointing), at=first, attempts=3)
    for in_doubt in (False, True):
        from_retry_row = retry_row_of(
            definition_of(moved(partition(SHOP), first), row(one)), at=second, attempts=4, in_doubt=in_doubt
        )
        from_original = retry_row_of(definition_of(partition(SHOP), pointing), at=second, attempts=4, in_doubt=in_doubt)
        assert from_retry_row == from_original
        options = decode_options(from_retry_row.options)
        assert (options.redelivery, options.in_doubt) == (Redelivery(at=first, attempts=3), in_doubt)
        assert (options.timeout_seconds, from_retry_row.ordering_key) == (2.5, None)


def test_the_retry_row_of_a_schedule_without_redelivery_is_a_plain_copy() -> None:
    original = definition(SHOP, options=OPTIONS, ordering_key="order")
    retry_row = retry_row_of(definition_of(partition(SHOP), row(original)), at=UnixMillis(original.due + 1), attempts=1)
    assert (retry_row.options, retry_row.ordering_key) == (OPTIONS, "order")
