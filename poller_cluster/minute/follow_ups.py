"""What the recorded outcomes of one minute still require in other partitions. Pure. A minute with open follow-ups does
not settle."""

from poller_cluster.minute.rows import PendingRow
from poller_cluster.minute.steps import FollowUp
from scheduler_service.domain.ids import Partition, RowKey, partition_of
from scheduler_service.domain.options import tells_of
from scheduler_service.domain.retry_rows import SUPERSEDED, definition_of, is_deadline, outcome_of
from scheduler_service.domain.schedules import Kind, Outcome, Row, State
from scheduler_service.domain.verbs import CRON_STOPPED


class FollowUps:
    """Follow-ups by the key of the row that requires them: open ones, and those acknowledged in this run. `events`:
    whether the client has a feed, so that every end is told there."""

    def __init__(self, partition: Partition, *, events: bool = False) -> None:
        self._partition = partition
        self._events = events
        self._new: list[FollowUp] = []
        self._open: dict[RowKey, FollowUp] = {}
        self._acknowledged: set[RowKey] = set()
        self._untold: dict[RowKey, FollowUp] = {}
        """Open follow-ups that are nothing but an event."""
        self._told: set[RowKey] = set()
        self._new_announced: list[Row] = []
        self._announced: set[RowKey] = set()

    def __len__(self) -> int:
        return len(self._open) + len(self._untold) + len(self._announced)

    def require(self, row: Row, outcome: Outcome) -> None:
        """A defined row of this minute has this outcome. Retrying rows require their next retry row, retry rows that
        their original gets their end, failed ones a dead letter, rescheduled ones the row that replaces them, those
        whose receiver stopped their cron its pause."""
        requires = (
            row.is_retry_row
            or outcome.state in (State.RETRYING, State.FAILED)
            or outcome.rescheduled_to is not None
            or outcome.reason == CRON_STOPPED
        )
        if outcome.reason == SUPERSEDED:
            # Another process moved the pointer, and may have died before it placed what that names.
            requires = is_deadline(row.options)
        on_end = _tells(row, outcome)
        if requires and row.key not in self._acknowledged:
            told = self._events and outcome.state.ended and outcome.reason != SUPERSEDED
            self._add(FollowUp(definition_of(self._partition, row), outcome, event=told, on_end=on_end))
        if (self._events or on_end) and self._untold_end(row, outcome):
            definition = definition_of(self._partition, row)
            self._tell(FollowUp(definition, outcome, event=self._events, on_end=on_end, alone=True))

    def _untold_end(self, row: Row, outcome: Outcome) -> bool:
        """Whether this end must be told and has no other follow-up. An original that was retrying is told of with its
        retry row's end; a retry row that its original does not name any more may be all that is left of a cancel."""
        if not outcome.state.ended or self._is_told(row.key):
            return False
        return outcome.state is State.CANCELLED if outcome.reason == SUPERSEDED else not self.known(row.key)

    def known(self, key: RowKey) -> bool:
        """Whether this row's follow-up is open or acknowledged."""
        return key in self._open or key in self._acknowledged

    def told(self, key: RowKey, kind: str | None = None) -> bool:
        """Whether the event of this row's end is acknowledged or under way, or none is appended at all. `kind`: of an
        original whose end may have to be told to a receiver of its own."""
        return (not self._events and kind != Kind.TOLD) or self._is_told(key)

    def _is_told(self, key: RowKey) -> bool:
        return key in self._untold or key in self._told

    def read(self, row: Row) -> None:
        """A row as a scan reads it. For an announced one it is looked up whether it must be created."""
        if row.announced and row.key not in self._announced:
            self._announced.add(row.key)
            self._new_announced.append(row)

    def take_announced(self) -> list[Row]:
        """The announced rows found since the last call."""
        new, self._new_announced = self._new_announced, []
        return new

    def looked_up(self, row: Row) -> None:
        """This announced row is created, or need not be."""
        self._announced.discard(row.key)

    def retry_row_checked(self, entry: PendingRow, original: Row | None) -> Outcome | None:
        """A retry row is compared with its original. None: the original names it, so it may be called; else its
        outcome."""
        if original is not None:
            entry.learn(original)
            if original.state == State.RETRYING:
                if original.next_attempt_at == entry.row.due:
                    return None
                self._require_for_original(original)
        return superseded(entry.row, original)

    def _require_for_original(self, original: Row) -> None:
        """A retrying original names another retry row than the one found: make sure that the named one is placed."""
        outcome = outcome_of(original)
        assert outcome is not None
        home = partition_of(self._partition.client_id, original.schedule_id)
        self._add(FollowUp(definition_of(home, original), outcome))

    def take(self) -> list[FollowUp]:
        """The follow-ups made since the last call."""
        new, self._new = self._new, []
        return new

    def acknowledged(self, follow_up: FollowUp) -> None:
        key = follow_up.key
        if follow_up.event or follow_up.on_end:
            self._told.add(key)
        if follow_up.alone:
            self._untold.pop(key, None)
        else:
            self._open.pop(key, None)
            self._acknowledged.add(key)

    def _tell(self, follow_up: FollowUp) -> None:
        self._untold[follow_up.key] = follow_up
        self._new.append(follow_up)

    def _add(self, follow_up: FollowUp) -> None:
        if follow_up.key not in self._open:
            self._open[follow_up.key] = follow_up
            self._new.append(follow_up)


def _tells(row: Row, outcome: Outcome) -> bool:
    """Whether this end is told to a receiver of the row's own. Ordinary rows have no kind."""
    return row.kind is not None and outcome.reason != SUPERSEDED and tells_of(row.options, outcome.state) is not None


def superseded(retry_row: Row, original: Row | None) -> Outcome:
    """The outcome of a retry row that its original does not name: the original's own end, else cancelled."""
    fate = original.state if original is not None and original.ended else None
    state = State(fate) if fate is not None else State.CANCELLED
    return Outcome(state=state, reason=SUPERSEDED, attempts=retry_row.attempt_base or 0)
