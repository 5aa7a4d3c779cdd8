"""What the recorded outcomes of one minute still owe other partitions. Pure; a minute settles without debts."""

from poller_cluster.open_rows import OpenRow
from poller_cluster.steps import FollowUp
from scheduler_service.domain.copies import definition_of, outcome_of
from scheduler_service.domain.ids import Partition, RowKey, partition_of
from scheduler_service.domain.schedules import Outcome, Row, State

SUPERSEDED = "superseded"
"""Reason of a copy that its original no longer names: it owes nobody anything."""


class Debts:
    """Follow-ups by the key of the row that owes them: open ones, and those paid by this life."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._new: list[FollowUp] = []
        self._open: dict[RowKey, FollowUp] = {}
        self._paid: set[RowKey] = set()

    def __len__(self) -> int:
        return len(self._open)

    def owe(self, row: Row, outcome: Outcome) -> None:
        """A defined row of this minute has this outcome. Retrying rows owe their next copy, copies the news to their
        original, failed ones a dead letter."""
        owes = row.is_copy or outcome.state in (State.RETRYING, State.FAILED)
        if owes and outcome.reason != SUPERSEDED and row.key not in self._paid:
            self._add(FollowUp(definition_of(self._partition, row), outcome))

    def copy_checked(self, entry: OpenRow, original: Row | None) -> Outcome | None:
        """A copy met its original. None: the original names it, and it may be called."""
        if original is not None:
            entry.learn(original)
            if original.state == State.RETRYING:
                if original.next_attempt_at == entry.row.due:
                    return None
                self._owe_for_original(original)
        return superseded(entry.row, original)

    def _owe_for_original(self, original: Row) -> None:
        """A retrying original names another copy than the one found: see that the named one is placed."""
        outcome = outcome_of(original)
        assert outcome is not None
        home = partition_of(self._partition.client_id, original.schedule_id)
        self._add(FollowUp(definition_of(home, original), outcome))

    def take(self) -> list[FollowUp]:
        """The debts made since the last call."""
        new, self._new = self._new, []
        return new

    def paid(self, follow_up: FollowUp) -> None:
        self._open.pop(follow_up.key, None)
        self._paid.add(follow_up.key)

    def _add(self, follow_up: FollowUp) -> None:
        if follow_up.key not in self._open:
            self._open[follow_up.key] = follow_up
            self._new.append(follow_up)


def superseded(copy: Row, original: Row | None) -> Outcome:
    """The outcome of a copy that its original does not name: the original's own end, else cancelled."""
    fate = original.state if original is not None and original.ended else None
    state = State(fate) if fate is not None else State.CANCELLED
    return Outcome(state=state, reason=SUPERSEDED, attempts=copy.attempt_base or 0)
