"""What is overdue. Instants are aware datetimes."""

from datetime import datetime, timedelta

import msgspec

from minutehand.client._calls import Operation, client_path, given, number


class OverdueAges(msgspec.Struct, frozen=True, kw_only=True):
    """How many were due how long ago, in whole minutes: each counts in the first that fits."""

    under_1_minute: int
    under_10_minutes: int
    under_1_hour: int
    under_6_hours: int
    under_1_day: int
    older: int


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules due in the past that have not ended: `counted` ones were read, `estimated` ones were not; `exact`: all
    were read. `oldest`: the minute in which the oldest ones were due. `open_minutes`: minutes of pollers that are not
    settled."""

    rows: int
    counted: int
    estimated: int
    exact: bool
    ages: OverdueAges
    open_minutes: int
    oldest: datetime | None = None


class BacklogPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Whether late calls fire or are skipped, and after how many seconds."""

    kind: str
    after_seconds: float


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What of a client is overdue. `held_by`: why it is not called, or not faster. `late_policy`, `at_most_once`: by
    the client's settings; `to_skip` rows will be skipped by that policy. `overdue_per_second`: the overdue
    rate in force, of the client or of all clients. `drain_seconds`: until nothing is overdue, as
    estimated; None: nothing is called."""

    client_id: str
    overdue: Overdue
    pollers: int
    pollers_behind: int
    held_by: tuple[str, ...]
    late_policy: BacklogPolicy
    to_skip: int
    at_most_once: bool
    overdue_per_second: float | None = None
    drain_seconds: int | None = None

    @property
    def drained_in(self) -> timedelta | None:
        return None if self.drain_seconds is None else timedelta(seconds=self.drain_seconds)


class ClusterBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """What is overdue of all clients, and a page of those that have some, the worst first. Give `next_cursor` for the
    next page; None: there is none."""

    overdue: Overdue
    clients: int
    items: tuple[Backlog, ...]
    drain_seconds: int | None = None
    next_cursor: str | None = None


def get_backlog(client_id: str) -> Operation[Backlog]:
    return Operation(method="GET", path=f"{client_path(client_id)}/backlog", answer=Backlog)


def get_cluster_backlog(*, cursor: str | None, page_size: int | None) -> Operation[ClusterBacklog]:
    query = given({"cursor": cursor, "limit": number(page_size)})
    return Operation(method="GET", path="/v1/cluster/backlog", answer=ClusterBacklog, query=query)
