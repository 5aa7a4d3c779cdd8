"""Retry rows carry their chain's history, the same from every process."""

import msgspec

from scheduler_service.domain.ids import ClientId, Partition, UnixMillis
from scheduler_service.domain.options import Redelivery, decode_options
from scheduler_service.domain.retry_rows import begun_again, definition_of, outcome_of, retry_row_of
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


def test_the_retry_rows_of_snoozes_are_equal_from_whatever_row_they_are_made() -> None:
    """A retry row that was in doubt is snoozed, and then its retry row fails: each next one is the same, made from the
    row that points on or from the original."""
    original = definition(SHOP, options=OPTIONS, ordering_key="order")
    first, second = UnixMillis(original.due + 90_000), UnixMillis(original.due + 200_000)
    third = UnixMillis(original.due + 300_000)
    one = retry_row_of(definition_of(partition(SHOP), row(original)), at=first, attempts=1, in_doubt=True)
    snoozed: dict[str, object] = {
        "state": "retrying",
        "attempts": 2,
        "next_attempt_at": second,
        "redelivered_at": second,
        "redelivered_after": 2,
    }
    made = []
    for where, pointing in (
        (moved(partition(SHOP), first), row(one, **snoozed)),
        (partition(SHOP), row(original, **snoozed)),
    ):
        outcome = outcome_of(pointing)
        assert outcome is not None
        made.append(retry_row_of(begun_again(definition_of(where, pointing), outcome), at=second, attempts=2))
    assert made[0] == made[1]
    options = decode_options(made[0].options)
    assert (options.redelivery, options.in_doubt) == (Redelivery(at=second, attempts=2), False)
    assert made[0].ordering_key is None
    failed = snoozed | {"attempts": 3, "next_attempt_at": third}
    from_retry_row = retry_row_of(definition_of(moved(partition(SHOP), second), row(made[0])), at=third, attempts=3)
    from_original = retry_row_of(definition_of(partition(SHOP), row(original, **failed)), at=third, attempts=3)
    assert from_retry_row == from_original
