"""One poller minute as a pure state machine: prefetch, open, claim, record, sweep, settle.

The shell asks `step(now, headroom)` what to do, does it, and reports the answer; in between it reports attempts that
ended, hints, and follow-ups. One step is under way at a time, so a partition never has two unanswered commits.

    READING --> RUNNING --> SWEEPING --> SETTLED        LOST: a newer epoch opened the partition
       ^___________|___________|  opened by an older    DRAINED: asked to stop, nothing left in flight
                                  epoch: read again

    event                                              READING     RUNNING     SWEEPING
    step: the grace is over (RUNNING: and at most      SWEEPING    SWEEPING    -
      half of the window is taken)
    page_read: first page shows a newer epoch          LOST        LOST        LOST
    page_read: any other page                          RUNNING     RUNNING     SWEEPING
    page_swept: first page shows a newer epoch         -           -           LOST
    step: a rescan is wanted, and its pause is over    -           RUNNING     -
    opened: applied, or rejected by an older epoch     READING     READING     READING
    opened: rejected by a newer epoch                  LOST        LOST        LOST
    committed: applied, or rejected with our version   READING     RUNNING     SWEEPING
    committed: rejected by a newer epoch               LOST        LOST        LOST
    committed: rejected, other epoch or version found  READING     READING     READING
    committed: rejected for `edits` or rows' states    READING     RUNNING     SWEEPING
    settled: the balance is written                    -           -           SETTLED
    step: draining, no row or follow-up under way      DRAINED     DRAINED     DRAINED

An Unknown answer and an untrusted read change nothing: the same step comes again. In SETTLED, DRAINED and LOST `step`
answers Stop. The shell sets LOST in any phase when the lease is lost.

    row:  waiting --(commit applied)--> claimed --(attempt ended)--> ended --(commit applied)--> recorded
           |  ^__(given back unsent)_______|                           ^
           '--(deferred, no call, or must not be called: ends unclaimed)'

Why this is safe: see the docstring of `poller_cluster`."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from membership.conditional import Answer, Applied, Rejected, Unknown
from poller_cluster.dispatch.job import Claim
from poller_cluster.minute.follow_ups import FollowUps
from poller_cluster.minute.partition import HINTED_ROWS, KnownHeader, PartitionScan, RescanThrottle, next_version
from poller_cluster.minute.rows import Admission, PendingRow, PendingRows
from poller_cluster.minute.steps import (
    OVER,
    CheckRows,
    OpenPartition,
    Phase,
    ReadHinted,
    ReadPage,
    ReadStrays,
    RecheckRows,
    Step,
    Stop,
    SweepPage,
    Wait,
    WriteBalance,
    WriteCommit,
)
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.books import Stamp, Tally
from scheduler_service.domain.ids import Partition, RowKey, ScheduleId, UnixMillis, minute_end
from scheduler_service.domain.retry_rows import outcome_of
from scheduler_service.domain.revisions import newer
from scheduler_service.domain.schedules import (
    Kind,
    Outcome,
    OwnerCommit,
    Page,
    PartitionHeader,
    Row,
    State,
    SweptPage,
    SweptRow,
    WriteRejection,
)
from scheduler_service.domain.verbs import CRON_STOPPED

STRAYS_AT_ONCE = 100
"""Rows that a sweep reads by key in one request; all their columns are read, so they may be large."""
WORD_AGAIN_MS = 1_000
"""From one look to the next at a row that is due, is no call and can't be ended yet."""
_WITH_FOLLOW_UP = (State.RETRYING, State.FAILED)


class PollerMinute:
    """See the module. Every `now` is wall time in Unix milliseconds; `headroom` is how many more rows may be claimed.
    `record_after_ms`, `window_rows` and `claim_ahead_ms` start as the settings say; the shell adjusts them.
    `events`: every end is told in the client's feed."""

    def __init__(
        self,
        *,
        partition: Partition,
        epoch: int,
        settings: MinuteSettings,
        admission: Admission,
        events: bool = False,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.phase = Phase.READING
        self.draining = False
        self.account, self.rows = Tally(), PendingRows()
        self.follow_ups = FollowUps(partition, events=events)
        self.record_after_ms, self.window_rows = settings.record_after_ms, settings.window_rows
        self.claim_ahead_ms = settings.claim_ahead_ms
        self.settings, self._admission = settings, admission
        self._sweep_at = UnixMillis(minute_end(partition.minute) + settings.grace_ms)
        self._header = KnownHeader()
        self._open_from: int | None = None
        self._scan, self._rescan = PartitionScan(), RescanThrottle(apart_ms=settings.rescan_apart_ms)
        # Writes under way, and the work that follows from their answers.
        self._unanswered: OwnerCommit | None = None
        self._claiming: tuple[PendingRow, ...] = ()
        self._claims: list[Claim] = []
        self._recheck: tuple[RowKey, ...] = ()
        self.long_calls: set[RowKey] = set()
        """Rows whose calls are under way and may take long: they take nothing of the window."""
        self._ended_unread: dict[RowKey, tuple[PendingRow, Outcome]] = {}
        self._release_due = self._releasing = False
        self._all_held = False
        self._strays: dict[RowKey, None] = {}
        self._hinted: dict[RowKey, None] = {}
        self._edited: dict[RowKey, None] = {}

    @property
    def claims_under_way(self) -> int:
        """Rows of a claim that is unanswered, or applied but not yet rechecked."""
        return len(self._claiming) + len(self._recheck)

    @property
    def window_taken(self) -> int:
        """How many rows of its window are taken."""
        return len(self.rows) - len(self.long_calls)

    @property
    def busy(self) -> bool:
        """Whether rows are claimed whose outcomes are expected soon."""
        return self.rows.claimed_count > len(self.long_calls)

    @property
    def at_rest(self) -> bool:
        """Asked while the step is Wait: whether nothing is left to do but to await long calls that are under way, and
        what other minutes do for the rows held for their keys. A row that is held for room keeps a minute at work."""
        if not self.rows or self.busy or self.rows.ended or self.follow_ups:
            return False
        behind_keys = self.rows.behind_keys()
        if behind_keys + len(self.long_calls) < len(self.rows):
            return False
        return self._admission.waits_for_others() if behind_keys else self._scan.done

    @property
    def write_unanswered(self) -> bool:
        """A conditional write is under way or its result is unknown: it must be repeated until it is answered."""
        return self._unanswered is not None or self._open_from is not None

    # The next step.

    def step(self, now: int, headroom: int) -> Step:
        """The next thing to do, the most urgent first. Asked again without an event in between, it answers the same."""
        if self.phase in OVER:
            return Stop()
        # Before all else: while the result of a write is unknown, what is known of the partition may be outdated.
        if self._unanswered is not None:
            return WriteCommit(self._unanswered)
        if self._recheck:
            return RecheckRows(self._recheck)
        if self._needs_open():
            self._open_from = self._header.claim_epoch
        if self._open_from is not None:
            return OpenPartition(self._open_from)
        if not self._scan.begun and not self.draining:
            if now >= self._sweep_at:
                self.phase = Phase.SWEEPING
            return self._page_step()
        if (commit := self._due_commit(now, 0 if self.draining else headroom)) is not None:
            return WriteCommit(commit)
        if self.draining:
            return self._drain_step()
        # Hinted rows may be due within seconds, so they come before the scan's next page.
        if self._hinted or self._edited:
            return ReadHinted((*self._hinted, *self._edited))
        if soon := self.rows.unchecked_by(now + self.settings.claim_ahead_ms):
            return CheckRows(soon)
        if self._strays:
            return ReadStrays(tuple(islice(self._strays, STRAYS_AT_ONCE)))
        if self._wants_page(now):
            return self._page_step()
        if self.phase is Phase.SWEEPING and self._scan.done and not self.rows and not self.follow_ups:
            return WriteBalance()
        return Wait(self._next_instant(now, headroom))

    def _page_step(self) -> ReadPage | SweepPage:
        """In a minute that was already read to its end, most rows are recorded or held. So its sweep reads few columns,
        and by key the rows of which it needs more."""
        after = self._scan.after
        if self.phase is not Phase.SWEEPING:
            return ReadPage(after)
        return SweepPage(after) if self._all_held else ReadPage(after, whole=True)

    def _needs_open(self) -> bool:
        """Opening costs a write, so it is done only if there are rows to write and an older epoch has the partition
        open. A partition that was never opened gets the epoch with the first commit."""
        opened_by = self._header.claim_epoch
        return opened_by not in (None, self.epoch) and len(self.rows) > 0 and not self.draining

    def _drain_step(self) -> Step:
        if self.rows.claimed_count or self.rows.ended or self.follow_ups:
            return Wait(None)
        self.phase = Phase.DRAINED
        return Stop()

    def _wants_page(self, now: int) -> bool:
        # Pages are fetched only into a half-empty window, so that they are few and large.
        if 2 * self.window_taken > self.window_rows:
            return False
        if self.phase is Phase.RUNNING and now >= self._sweep_at:
            self._begin_scan(Phase.SWEEPING)
        elif (
            self._scan.done and self.phase is Phase.RUNNING and self._rescan.due_at(now) <= now and self._rescan.wanted
        ):
            self._begin_scan(Phase.RUNNING)
            self._rescan.begins(now)
        return not self._scan.done

    def _begin_scan(self, phase: Phase) -> None:
        self.phase = self.phase if self.phase is Phase.LOST else phase
        self._scan = PartitionScan()
        self._rescan.begins()
        # The new scan counts rows that external updates have ended.
        self._edited.clear()
        self._strays.clear()

    def _next_instant(self, now: int, headroom: int) -> UnixMillis | None:
        instants: list[int] = []
        if (oldest := self.rows.oldest_end()) is not None:
            instants.append(oldest + self.record_after_ms)
        if (word := self.rows.next_word()) is not None:
            instants.append(word if word > now else now + WORD_AGAIN_MS)
        if headroom > 0:
            lead_ms = min(self.settings.claim_lead_ms, self.claim_ahead_ms)
            instants += self.rows.claim_instants(now, lead_ms=lead_ms)
        if self.phase is Phase.RUNNING and self._sweep_at > now:
            instants.append(self._sweep_at)
            if self._rescan.wanted and 2 * self.window_taken <= self.window_rows:
                instants.append(self._rescan.due_at(now))
        return UnixMillis(max(min(instants), now + 1)) if instants else None

    # Commits: claims and outcomes.

    def _due_commit(self, now: int, headroom: int) -> OwnerCommit | None:
        self.rows.reconsider(self._admission, now)
        if not self.draining:
            # They take no place, so they wait for no room.
            self.rows.end_words(now, self._admission.end_of_word)
        due = self.rows.next_due()
        claims_due = (
            headroom > 0 and due is not None and due <= now + min(self.settings.claim_lead_ms, self.claim_ahead_ms)
        )
        if not (claims_due or self._release_due or self._record_due(now, idle=due is None)):
            return None
        # Once a commit is due it takes all rows within the horizon: a larger commit costs little more.
        horizon = now + self.claim_ahead_ms
        claims = self.rows.pick(horizon=horizon, limit=headroom, judge=self._admission, now=now) if claims_due else ()
        expect = None if self._header.edits_known else State.SCHEDULED
        writes = self.rows.ended_writes(expect=expect, most=self.settings.record_rows)
        if not (claims or writes or self._release_due):
            return None
        in_flight = self.rows.on_the_wire(without=len(writes))
        in_flight.update([entry.row.schedule_id for entry in claims])
        self._claiming = claims
        # Rows given back while this commit is unanswered are released by a later one.
        self._releasing, self._release_due = self._release_due, False
        self._unanswered = self._header.commit(self.partition, epoch=self.epoch, in_flight=in_flight, writes=writes)
        return self._unanswered

    def _record_due(self, now: int, *, idle: bool) -> bool:
        if (oldest := self.rows.oldest_end()) is None:
            return False
        ended = len(self.rows.ended)
        if self.draining or ended >= self.settings.record_rows or oldest + self.record_after_ms <= now:
            return True
        # All attempts have ended and no row waits: no other outcome could share the write.
        return idle and self.rows.claimed_count <= ended

    def committed(self, answer: Answer[WriteRejection]) -> None:
        """The answer to the commit of the last step. Unknown: the same commit comes again."""
        commit = self._unanswered
        assert commit is not None
        match answer:
            case Unknown():
                return
            case Applied():
                self._commit_applied(commit)
            case Rejected(current=current):
                header = current.header
                # An earlier try of the same commit, answered unknown, was applied after all.
                if header.claim_epoch == self.epoch and header.version == next_version(commit):
                    self._commit_applied(commit)
                else:
                    self._commit_rejected(commit, current)

    def _commit_applied(self, commit: OwnerCommit) -> None:
        self._header.committed(commit)
        self.account.stamp = Stamp(self._header.version, self.account.stamp.edits)
        claims, self._unanswered, self._claiming = self._claiming, None, ()
        for write in commit.writes:
            self._recorded(write.key, write.outcome, edits_known=commit.edits_known)
        self.rows.claimed(claims)
        if commit.edits_known:
            self._claims.extend(entry.claim() for entry in claims)
        else:
            self._recheck = (*(entry.key for entry in claims), *self._ended_unread)

    def _commit_rejected(self, commit: OwnerCommit, current: WriteRejection) -> None:
        header = current.header
        self.rows.put_back(self._claiming)
        self._unanswered, self._claiming = None, ()
        self._release_due |= self._releasing
        if header.claim_epoch is not None and header.claim_epoch > self.epoch:
            self.phase = Phase.LOST
        elif header.claim_epoch != commit.expect_epoch or header.version != commit.version:
            # Another owner has written since the header was read.
            self._header.claim_epoch = header.claim_epoch
            self._read_again()
        elif commit.edits_known and header.edits != commit.edits:
            # There was an external update, perhaps of other rows: the next commit tests the rows themselves.
            self._header.edits_known = False
        else:
            for write in commit.writes:
                # An external update has decided this row; our outcome for it is void.
                if write.expect_state is not None and current.rows.get(write.key, (None, None))[0] is not None:
                    self._void(write.key)

    def _void(self, key: RowKey) -> None:
        self.rows.forget(key)
        self._header.settled([key])
        self._release_due = True
        self._edited[key] = None
        self._strays.pop(key, None)

    # Open, and reads of the whole partition.

    def opened(self, answer: Answer[PartitionHeader]) -> None:
        """The answer to OpenPartition. Applied or rejected, earlier reads are discarded. Unknown: the same step comes
        again."""
        match answer:
            case Unknown():
                return
            case Applied():
                self._header.claim_epoch = self.epoch
            case Rejected(current=header):
                self._header.claim_epoch = header.claim_epoch
                if header.claim_epoch is not None and header.claim_epoch > self.epoch:
                    self.phase = Phase.LOST
                    return
        self._open_from = None
        self._read_again()

    def _read_again(self) -> None:
        self._header.fresh = self._all_held = False
        self.rows.discard_unclaimed()
        self._begin_scan(Phase.READING)

    def page_read(self, page: Page, *, trusted: bool) -> None:
        """A page of the scan under way. `trusted`: trust held when the read had ended; otherwise the page is ignored
        and read again."""
        if not trusted:
            return
        if not self._scan.begun and not self._first_page_read(page.header):
            return
        for row in page.rows:
            self._row_read(row)
        self._scan.page_read(page)
        if self._scan.done:
            self._whole_read()
        if self.phase is Phase.READING:
            self.phase = Phase.RUNNING

    def page_swept(self, page: SweptPage, *, trusted: bool) -> None:
        """The same for a page with only the columns that settling needs. Rows of which the sweep needs more are strays:
        the scan is incomplete until they are read."""
        if not trusted:
            return
        if not self._scan.begun and not self._first_page_read(page.header):
            return
        for row in page.rows:
            if self._is_stray(row):
                self._strays[row.key] = None
        self._scan.page_read(page)
        if self._scan.done and not self._strays:
            self._whole_read()

    def strays_read(self, asked: Iterable[RowKey], rows: Mapping[RowKey, Row], *, trusted: bool) -> None:
        """The rows of ReadStrays that exist. Those that this machine recorded meanwhile are counted already."""
        if not trusted:
            return
        for key in asked:
            if key in self._strays:
                del self._strays[key]
                if key in rows:
                    self._row_read(rows[key])
        if self._scan.done and not self._strays:
            self._whole_read()

    def _whole_read(self) -> None:
        """A scan has seen every row."""
        self._all_held = True
        self._admission.whole_read()
        self._header.whole_read(self._scan.edits, in_doubt=self.rows.whole_read())

    def _is_stray(self, row: SweptRow) -> bool:
        """Whether the sweep must read this row by key: it is unknown here, it was only announced, or it has a follow-up
        that is not known here. Any other row with an outcome is counted."""
        if self.rows and (known := self.rows.get(row.key)) is not None:
            if known.claimed:
                return False
            if row.state is None:
                return newer(row.revision, known.row.revision)
            self.rows.forget(row.key)
        if row.state is None:
            return True
        requires = row.kind == Kind.RETRY_ROW or row.state in _WITH_FOLLOW_UP or row.rescheduled_to is not None
        requires = requires or row.reason == CRON_STOPPED
        requires = requires or (row.state != State.RETRYING and not self.follow_ups.told(row.key, row.kind))
        if requires and row.created_at is not None and not self.follow_ups.known(row.key):
            return True
        if row.ordering_key is not None:
            self._admission.swept(row)
        self.account.add_read(row)
        return False

    def _first_page_read(self, header: PartitionHeader) -> bool:
        self._scan.begin(header.edits)
        if header.claim_epoch is not None and header.claim_epoch > self.epoch:
            self.phase = Phase.LOST
            return False
        self.account.begin(Stamp(header.version, header.edits))
        if not self._header.fresh or self._header.claim_epoch != self.epoch:
            # Rows of an earlier scan may have been updated since; taking over the current `edits` would hide that.
            self.rows.discard_unclaimed()
            self._header.read(header, ours={key.schedule_id for key, entry in self.rows if entry.claimed})
        return True

    def _row_read(self, row: Row) -> None:
        if row.state is None and row.created_at is not None:
            if row.ordering_key is not None:
                self._admission.read(row)
            in_doubt = self._header.in_doubt(row)
            if in_doubt and row.ordering_key is not None:
                self._admission.in_doubt(row)
            self.rows.add(row, redelivery=in_doubt)
            return
        key, known = row.key, self.rows.get(row.key)
        self._admission.read(row)
        if row.state is not None:
            if known is not None and not known.claimed:
                self.rows.forget(key)
            if self.phase is Phase.SWEEPING and (known is None or not known.claimed):
                self._account_row(row)
        self.follow_ups.read(row)

    # Single rows.

    def hint(self, keys: Collection[RowKey] | None) -> None:
        """Rows that were created near their due; unknown ones are read by key. None, or too many to read so: the whole
        partition is read again."""
        if self.phase in OVER:
            return
        if keys is None or len(self._hinted) + len(keys) > HINTED_ROWS:
            self._rescan.wanted = True
        else:
            self._hinted.update((key, None) for key in keys if key not in self.rows)

    def hinted_read(self, asked: Iterable[RowKey], rows: Mapping[RowKey, Row], *, trusted: bool) -> None:
        """The rows of ReadHinted that exist; the others are left to the sweep."""
        if not trusted:
            return
        for row in rows.values():
            self._admission.read(row)
            if row.state is None and row.defined:
                self.rows.add(row, redelivery=self._header.in_doubt(row))
            elif row.key in self._edited and row.state is not None and self._swept_past(row.key):
                self._account_row(row)
            elif row.defined and not self.follow_ups.told(row.key) and (outcome := outcome_of(row)) is not None:
                # It was cancelled: its event need not wait for the sweep.
                self.follow_ups.require(row, outcome)
        for key in asked:
            self._hinted.pop(key, None)
            self._edited.pop(key, None)

    def rechecked(self, rows: Mapping[RowKey, Row]) -> None:
        """Rows just claimed or ended without the test of `edits`. Claimed ones that have got an outcome must not be
        sent; the content of all others is that of their last revision, and nobody revises them any more."""
        for key in self._recheck:
            entry, row = self.rows.get(key), rows.get(key)
            if (unread := self._ended_unread.pop(key, None)) is not None:
                entry, outcome = unread
                if row is not None:
                    entry.revise(row)
                self._require(entry, outcome)
            elif entry is not None and row is not None and row.state is None:
                entry.revise(row)
                self._claims.append(entry.claim())
            elif entry is not None:
                self._void(key)
        self._recheck = ()

    def rows_checked(
        self, asked: Iterable[Row], originals: Mapping[ScheduleId, Row], outcomes: Mapping[RowKey, Outcome]
    ) -> None:
        """Originals of the retry rows in `asked`, and outcomes of the fires that must not be called. A retry row that
        its original does not name ends as superseded."""
        for row in asked:
            entry = self.rows.unchecked.pop(row.key, None)
            if entry is None:
                continue
            entry.checked = True
            outcome = outcomes.get(row.key)
            if row.is_retry_row:
                if (original := originals.get(row.schedule_id)) is not None:
                    self._admission.read(original)
                outcome = self.follow_ups.retry_row_checked(entry, original) or outcome
            if outcome is not None:
                self.rows.end(entry, outcome, at=0)

    # Attempts and follow-ups.

    def take_claims(self) -> list[Claim]:
        """The rows that became ours to send since the last call."""
        claims, self._claims = self._claims, []
        return claims

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> bool:
        """The outcome of a claimed row; one of the next commits records it. True: ask for the next step, which may have
        changed."""
        rows, entry = self.rows, self.rows.get(key)
        if entry is None or entry.outcome is not None:
            return False
        rows.end(entry, outcome, at=now)
        ended = len(rows.ended)
        return ended == 1 or ended >= self.settings.record_rows or ended >= rows.claimed_count

    def unclaimed(self, key: RowKey) -> None:
        """A claimed row was given back unsent: it waits again, and leaves `in_flight` unless it was in doubt before."""
        entry = self.rows.get(key)
        if entry is not None and entry.claimed and entry.outcome is None:
            self.rows.unclaim(entry)
            self._release_due = True

    def settled(self) -> None:
        """The balance is written, or the minute was empty."""
        if self.phase is not Phase.LOST:
            self.phase = Phase.SETTLED

    def _recorded(self, key: RowKey, outcome: Outcome, *, edits_known: bool) -> None:
        entry = self.rows.forget(key)
        assert entry is not None
        if self._strays:
            self._strays.pop(key, None)
        if edits_known or entry.claimed or entry.row.is_retry_row:
            self._require(entry, outcome)
        else:
            # It may have been revised since it was read, and what follows from its outcome must have that content.
            self._ended_unread[key] = (entry, outcome)

    def _require(self, entry: PendingRow, outcome: Outcome) -> None:
        key = entry.key
        self._admission.recorded(entry.row, outcome)
        if self._swept_past(key):
            self.account.add(entry.row, outcome)
        self.follow_ups.require(entry.row, outcome)

    def _swept_past(self, key: RowKey) -> bool:
        """Whether the sweep has read past this key already, so that it will not count the row later."""
        return self.phase is Phase.SWEEPING and self._scan.has_passed(key)

    def _account_row(self, row: Row) -> None:
        """A row with an outcome, seen by the sweep. A pointer without a definition is left to the process that writes
        the definition."""
        outcome = outcome_of(row)
        if outcome is not None and row.defined:
            self.account.add(row, outcome)
            self.follow_ups.require(row, outcome)
