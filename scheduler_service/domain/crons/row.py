"""A cron as stored, and its runs.

    revision           grows with every change of the rule, the callback or the state
    expanded_through   nominal instant through which every fire has its child
    fires              how many fires that were, over all revisions (bounded by `max_fires`)
    swept              all children of revisions older than this one were withdrawn
    wake_at            when the cron is to be expanded next; None: never again by itself
    confirmations      how often a request found the cron as wanted and confirmed it; a change is written only if
                       neither this nor the revision has grown since it was decided
    pause              why it is paused; None for a cron that is not, or that a program of the version before paused

A change of a cron sets `wake_at` to now; an expansion sets it to the next wake-up. So a cron whose `wake_at` is long
past has been forgotten, for whatever reason.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import CLIENT_ID_PATTERN
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import ClientId, CronId, PollerId, ScheduleId, UnixMillis
from scheduler_service.domain.options import RetryOverride, run_key

CRON_CLIENT = ClientId("$cron")
"""The built-in client whose rows wake crons."""
CRON_ID_PATTERN = CLIENT_ID_PATTERN
DEFAULT_CATCH_UP_SECONDS = 3600.0
FIRST_REVISION = 1
"""The revision of a new cron, which has no older children."""


Overlap = Literal["allow", "skip", "buffer_one", "buffer_all", "cancel_other"]
"""What becomes of a run that is due while an earlier one has not ended: it is called beside it; skipped; it waits, if
no other waits, or in any case; or the earlier one is cancelled."""


class CronState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    """Past `ends_at` or the last fire."""
    DELETED = "deleted"
    """The row stays for the client's retention, so that a new cron of that id continues its revisions."""


class CronSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule as it was asked for: its texts in another dialect than the canonical one."""

    dialect: str
    expression: str
    also: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()


class CronPause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a cron is paused: by whom (a request, or nodes because of `failures`), `at` which instant (Unix
    milliseconds), with what note. True of one `revision`: an older program that changes the cron leaves what is stored
    of an earlier pause."""

    at: UnixMillis
    revision: int
    by: Literal["request", "failures"] = "request"
    note: str | None = None


class CronOptions(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A rule's options beside expression and zone. Instants are Unix milliseconds, `ends_at` is exclusive.
    `empty_body`, `flow`, `wire`, `ack`, `on_success` and `on_failure` as in `ScheduleOptions`, `ordering_key` as in
    `Definition`. `source`: only to be shown; None: `expression` is what was asked for.
    `waits`: the policy if it is neither of `overlap`, which is then skip, for programs that know only those two.
    `pause_after_failures`: after how many failed runs in a row nodes pause the cron; None: they never do.
    `succeed_within_seconds`: of every run, as in `ScheduleOptions`."""

    starts_at: UnixMillis | None = None
    ends_at: UnixMillis | None = None
    max_fires: int | None = None
    spread_seconds: int = 0
    catch_up_seconds: float = DEFAULT_CATCH_UP_SECONDS
    overlap: Literal["allow", "skip"] = "allow"
    waits: Literal["buffer_one", "buffer_all", "cancel_other"] | None = None
    gap: Literal["shift", "skip"] = "shift"
    fold: Literal["first", "both"] = "first"
    retry: RetryOverride | None = None
    timeout_seconds: float | None = None
    label: str | None = None
    empty_body: bool = False
    flow: Flow | None = None
    ordering_key: str | None = None
    pause_after_failures: int | None = None
    succeed_within_seconds: float | None = None
    source: CronSource | None = None
    wire: str | None = None
    ack: Ack | None = None
    on_success: str | None = None
    on_failure: str | None = None

    @property
    def policy(self) -> Overlap:
        return self.waits or self.overlap

    @property
    def pin(self) -> str | None:
        """The name that decides the children's poller, if one does."""
        return self.ordering_key if self.flow is None else self.flow.key


class CronCallback(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of every child. `headers` is JSON text as in `Definition`."""

    method: str
    url: str
    headers: str
    body: bytes

    @property
    def size(self) -> int:
        """Approximate bytes of the fields that may be long."""
        return len(self.url) + len(self.headers) + len(self.body)


NO_CALLBACK = CronCallback(method="POST", url="", headers="[]", body=b"")
"""The callback of a deleted cron."""


class Cron(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `crons`. `poller_id` is the children's poller, `changed_at` when this revision was made."""

    client_id: ClientId
    cron_id: CronId
    expression: str
    timezone: str
    callback: CronCallback
    options: CronOptions
    state: CronState
    revision: int
    poller_id: PollerId
    created_at: UnixMillis
    changed_at: UnixMillis
    expanded_through: UnixMillis
    fires: int
    swept: int
    wake_at: UnixMillis | None
    confirmations: int = 0
    pause: CronPause | None = None

    @property
    def runs_key(self) -> str | None:
        """The ordering key of its runs."""
        return self.options.ordering_key if self.options.policy == "allow" else run_key(self.cron_id)


class CronProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one cron, applied if revision, expanded_through and swept are still those of `cron`."""

    cron: Cron
    state: CronState
    expanded_through: UnixMillis
    fires: int
    swept: int
    wake_at: UnixMillis | None


class CronMark(msgspec.Struct, frozen=True, gc=False):
    """The columns of a cron that the overdue scan needs."""

    cron_id: CronId
    state: CronState
    wake_at: UnixMillis | None
    changed_at: UnixMillis

    def over(self, before: int) -> bool:
        """Whether it was deleted before that instant, and needs no further expansion."""
        return self.state is CronState.DELETED and self.wake_at is None and self.changed_at < before


class CronLabel(msgspec.Struct, frozen=True, gc=False):
    """The columns of a cron by which crons of a label are found."""

    cron_id: CronId
    state: CronState
    label: str | None
    pause: CronPause | None


class CronRule(msgspec.Struct, frozen=True, gc=False):
    """The columns of a cron by which its fires are foreseen."""

    cron_id: CronId
    expression: str
    timezone: str
    options: CronOptions
    state: CronState
    created_at: UnixMillis
    expanded_through: UnixMillis
    fires: int


class CronStanding(msgspec.Struct, frozen=True, gc=False):
    """The columns of a cron by which a fire is judged before it is claimed."""

    client_id: ClientId
    cron_id: CronId
    revision: int
    overlap: Overlap
    pause_after_failures: int | None = None


class CronRun(msgspec.Struct, frozen=True, gc=False):
    """One run: the child of a fire (`nominal_due` is the instant of the rule), or a triggered one. The row of a later
    revision replaces that of an earlier one, in whatever order they are written."""

    client_id: ClientId
    cron_id: CronId
    nominal_due: UnixMillis
    revision: int
    schedule_id: ScheduleId

    @property
    def triggered(self) -> bool:
        """Fires are at whole seconds, and no triggered run is."""
        return self.nominal_due % 1000 != 0
