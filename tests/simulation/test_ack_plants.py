"""Every planted bug of acknowledged work is found by a scene."""

from typing import Any

import msgspec
import pytest

from poller_cluster.dispatch import dispatcher
from poller_cluster.dispatch import outcome as outcomes
from poller_cluster.dispatch import words as ends
from poller_cluster.minute import follow_up_runner, ordering, rows
from poller_cluster.minute import follow_ups as required
from poller_cluster.minute.follow_ups import FollowUps
from scheduler_service.domain import retry
from scheduler_service.domain.acknowledgements import AWAITING, REASONS_OF_WORDS, Address
from scheduler_service.domain.books import CountedRow, Tally
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.options import ScheduleOptions
from scheduler_service.domain.schedules import Definition, Outcome, Row, RowWrite, State, SweptRow
from scheduler_service.usecases import acknowledge
from scheduler_service.usecases.acknowledge import AcknowledgeWork, Word
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation import ack_scenes as scenes
from tests.simulation.acknowledgements import ACK
from tests.simulation.plants import Plant
from tests.simulation.world import Scene, Violation, simulate

Patch = pytest.MonkeyPatch


def any_fence_counts(patch: Patch) -> None:
    def refuse(row: Row, address: Address) -> None:
        if (row.attempts or 0) != address.attempt:
            raise Conflict("stale-attempt", "another attempt")

    patch.setattr(acknowledge, "_refuse_stale", refuse)


def any_attempt_counts(patch: Patch) -> None:
    patch.setattr(acknowledge, "_refuse_stale", lambda row, address: None)


def words_overwrite_each_other(patch: Patch) -> None:
    """The write of a word does not test the deadline that was read."""

    def blind(**columns: Any) -> RowWrite:
        return RowWrite(**(columns | {"expect_next_attempt_at": None}))

    patch.setattr(acknowledge, "RowWrite", blind)


def words_count_whatever_is_awaited(patch: Patch) -> None:
    """A word is taken of a row that retries for another reason."""
    take = AcknowledgeWork._take

    async def lenient(self: AcknowledgeWork, partition: Any, row: Row, address: Address, word: Word) -> Row | None:
        if row.state == State.RETRYING and row.reason not in REASONS_OF_WORDS:
            return await self._point(partition, row, address, word)
        return await take(self, partition, row, address, word)

    patch.setattr(AcknowledgeWork, "_take", lenient)


def a_repeat_is_another_word(patch: Patch) -> None:
    async def again(self: AcknowledgeWork, partition: Any, row: Row, address: Address, word: Word) -> Row | None:
        return await self._point(partition, row, address, word)

    patch.setattr(AcknowledgeWork, "_take", again)


def a_repeat_replaces_what_was_kept(patch: Patch) -> None:
    keep = AcknowledgeWork._keep

    async def replace(self: AcknowledgeWork, address: Address, word: Word, *, repeated: bool = False) -> None:
        await keep(self, address, word)

    patch.setattr(AcknowledgeWork, "_keep", replace)


def early_words_are_stale(patch: Patch) -> None:
    patch.setattr(acknowledge, "_is_early", lambda row, address: False)


def extensions_shorten(patch: Patch) -> None:
    point = AcknowledgeWork._point

    async def moved(self: AcknowledgeWork, partition: Any, row: Row, address: Address, word: Word) -> Row | None:
        later = self._later(row, address, word) if word.result == "extend" else None
        if later is not None and row.next_attempt_at is not None and later <= row.next_attempt_at:
            at = msgspec.structs.replace(acknowledge._outcome(row, later, AWAITING))
            await self._writer.update(partition, [RowWrite(key=row.key, outcome=at, expect_state=State.RETRYING)])
            return row
        return await point(self, partition, row, address, word)

    patch.setattr(AcknowledgeWork, "_point", moved)


def deadlines_have_any_milliseconds(patch: Patch) -> None:
    patch.setattr(acknowledge, "deadline_at", lambda at, attempts: UnixMillis(at))


def words_take_any_instant(patch: Patch) -> None:
    async def now(self: AcknowledgeWork, partition: Any, row: Row) -> UnixMillis:
        return UnixMillis(max(self._clock.wall_ms(), row.due + 1))

    patch.setattr(AcknowledgeWork, "_free_instant", now)


def rows_of_words_are_not_placed(patch: Patch) -> None:
    """Neither by who takes the word nor by the deadline's owner."""

    async def place(self: ScheduleWriter, definition: Definition, outcome: Outcome) -> None:
        if outcome.reason in REASONS_OF_WORDS - {AWAITING}:
            return
        await complete(self, definition, outcome)

    complete = ScheduleWriter.complete
    patch.setattr(ScheduleWriter, "complete", place)


def lost_ends_look_after_nothing(patch: Patch) -> None:
    """A deadline whose end does not reach its original leaves that alone, and so does one that is superseded."""
    patch.setattr(follow_up_runner, "is_acknowledged", lambda options: False)


def superseded_deadlines_require_nothing(patch: Patch) -> None:
    patch.setattr(required, "is_deadline", lambda options: False)


def deadlines_are_forgotten_at_take_over(patch: Patch) -> None:
    """What a row that is read says already is taken for done."""
    require = FollowUps.require

    def forget(self: FollowUps, row: Row, outcome: Outcome) -> None:
        if row.state is None or outcome.reason != AWAITING:
            require(self, row, outcome)

    patch.setattr(FollowUps, "require", forget)


def lost_ends_have_dead_letters(patch: Patch) -> None:
    carry_out = follow_up_runner.carry_out

    async def written(follow_up: Any, **ports: Any) -> bool:
        if follow_up.outcome.state is State.FAILED:
            await ports["books"].dead_letter(follow_up.definition, follow_up.outcome)
        return await carry_out(follow_up, **ports)

    patch.setattr(follow_up_runner, "carry_out", written)


def lost_ends_are_told(patch: Patch) -> None:
    carry_out = follow_up_runner.carry_out

    async def reached(follow_up: Any, **ports: Any) -> bool:
        await carry_out(follow_up, **ports)
        return True

    patch.setattr(follow_up_runner, "carry_out", reached)


def equal_ends_are_the_same(patch: Patch) -> None:
    """An original that failed by a word has failed by its deadline as well."""

    async def same(self: ScheduleWriter, *end: object) -> bool:
        return True

    patch.setattr(ScheduleWriter, "_ended_by", same)


def words_are_called(patch: Patch) -> None:
    patch.setattr(rows, "word_of", lambda options: None)


def lost_words_are_retried_whatever_the_client_says(patch: Patch) -> None:
    patch.setattr(ends, "decide", lambda *args, **rules: retry.decide(*args, **(rules | {"at_most_once": False})))


def failed_words_deliver(patch: Patch) -> None:
    patch.setattr(ends, "ACKNOWLEDGED", "receiver-failed")


def every_202_is_awaited(patch: Patch) -> None:
    conclude = outcomes.conclude

    def waits(claim: Any, result: Any, *, options: ScheduleOptions, **rest: Any) -> Outcome:
        return conclude(claim, result, options=msgspec.structs.replace(options, ack=ACK), **rest)

    patch.setattr(dispatcher, "conclude", waits)


def no_202_is_awaited(patch: Patch) -> None:
    patch.setattr(outcomes, "ACCEPTED", 299)


def waits_are_counted_twice(patch: Patch) -> None:
    add_read = Tally.add_read

    def twice(self: Tally, row: CountedRow | SweptRow) -> None:
        for _ in range(1 + (row.state == State.RETRYING)):
            add_read(self, row)

    patch.setattr(Tally, "add_read", twice)


def a_202_ends_the_turn_of_its_key(patch: Patch) -> None:
    patch.setattr(ordering, "REASONS_OF_WORDS", frozenset())


FOUND: dict[Plant, Scene] = {
    any_fence_counts: scenes.made_twice,
    any_attempt_counts: scenes.the_attempt_before,
    words_overwrite_each_other: scenes.two_words_at_once,
    words_count_whatever_is_awaited: scenes.after_the_deadline,
    a_repeat_is_another_word: scenes.the_same_word_again,
    a_repeat_replaces_what_was_kept: scenes.the_same_word_again,
    early_words_are_stale: scenes.faster_than_its_record,
    extensions_shorten: scenes.shorter_extension,
    deadlines_have_any_milliseconds: scenes.the_same_instant,
    words_take_any_instant: scenes.a_word_at_the_instant_of_its_call,
    rows_of_words_are_not_placed: scenes.an_unplaced_word,
    lost_ends_look_after_nothing: scenes.around_the_deadline,
    superseded_deadlines_require_nothing: scenes.postponed_and_killed,
    deadlines_are_forgotten_at_take_over: scenes.taken_and_killed,
    lost_ends_have_dead_letters: scenes.around_the_deadline,
    lost_ends_are_told: scenes.around_the_deadline,
    equal_ends_are_the_same: scenes.around_the_deadline,
    words_are_called: scenes.two_words_at_once,
    lost_words_are_retried_whatever_the_client_says: scenes.at_most_once,
    failed_words_deliver: scenes.around_the_deadline,
    every_202_is_awaited: scenes.without_ack,
    no_202_is_awaited: scenes.two_words_at_once,
    waits_are_counted_twice: scenes.counted_while_it_waits,
    a_202_ends_the_turn_of_its_key: scenes.behind_its_key,
}


@pytest.mark.parametrize("scene", dict.fromkeys(FOUND.values()), ids=lambda scene: scene.__name__)
def test_a_scene_passes(scene: Scene) -> None:
    simulate(scene)


@pytest.mark.parametrize("plant", FOUND, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        simulate(FOUND[plant])
