"""Whether creates are accepted now: by the client's state, and by the clock."""

from collections.abc import Callable
from typing import Protocol

from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import ClientSuspended, ClockInDoubt, Conflict
from scheduler_service.runtime.clock import Clock


class ComparedClock(Protocol):
    """This process's wall clock against the members', as `WatchMembers` compares them."""

    @property
    def first_offset_ms(self) -> int | None:
        """How far it is ahead, as last known; None before it was ever compared."""

    @property
    def alone(self) -> bool:
        """No member beats."""


class JudgeClock:
    """Judge: may this process create schedules by its own wall clock? A wrong clock would place calls at wrong times;
    one that is behind would place them in minutes that the nodes have settled and never read again.

        stepped, and not judged since                             refused
        never compared with the members' clocks                   refused: no member was seen to beat, or not for long
        compared, and off by the limit or more, either way        refused
        seconds away from the members' and Cassandra's median     refused, even where the members agree with it
        compared once, and no member beats now                    allowed: overdue schedules are called when one is back

    A clock that was set and is trusted only because no member beats counts as never compared.
    """

    def __init__(self, *, clock: Clock, compared: ComparedClock, limit_ms: int) -> None:
        self._clock = clock
        self._compared = compared
        self._limit_ms = limit_ms

    def doubted(self) -> bool:
        """Whether `self()` raises."""
        return self._doubt() is not None

    def __call__(self) -> None:
        """Raises ClockInDoubt."""
        doubt = self._doubt()
        if doubt is not None:
            raise ClockInDoubt(doubt)

    def _doubt(self) -> str | None:
        if not self._clock.wall_trusted():
            return "this process's clock was stepped and does not agree with the nodes' clocks yet"
        offset_ms = self._compared.first_offset_ms
        if offset_ms is None:
            if self._compared.alone:
                return (
                    "this process sees no node that could make the calls, and no clock to compare its own with; start "
                    "a node"
                )
            return "this process has not compared its clock with the nodes' clocks yet"
        if abs(offset_ms) >= self._limit_ms:
            return f"this process's clock differs by {abs(offset_ms)} ms from the nodes' or Cassandra's"
        return None


class AdmitCreates:
    """Admit: whether anything new may be created for a client right now.

    Judges clients that the caller has looked up, and this process's clock. `admit_wires()` raises Conflict
    (older-nodes) while nodes run that would make calls of wires otherwise (`domain.wires`).
    """

    def __init__(self, *, judge_clock: JudgeClock, admit_wires: Callable[[], None]) -> None:
        self._judge_clock = judge_clock
        self._admit_wires = admit_wires

    def __call__(self, client: Client) -> None:
        """Raises ClientSuspended; Conflict for built-in clients, whose rows Minutehand creates itself; ClockInDoubt."""
        if client.state is ClientState.SUSPENDED:
            raise ClientSuspended(f"client {client.client_id!r} is suspended: an administrator must resume it first")
        self.work(client)

    def by_wire(self, client: Client) -> None:
        """The same for calls that nodes make as another scheduler does. Raises Conflict (older-nodes), too."""
        self(client)
        self._admit_wires()

    def work(self, client: Client) -> None:
        """The same for work that makes no calls, which a suspended client may request."""
        if client.built_in:
            raise Conflict("built-in-client", f"{client.client_id!r} is a built-in client: it takes no other work")
        self._judge_clock()


class KnowingMembers(Protocol):
    """What the programs of all nodes know, as `WatchMembers` sees it."""

    @property
    def knows(self) -> int:
        """The newest migration that all of them know; 0 while there are no nodes."""


class AdmitKnown:
    """Admit: whether something may be stored that nodes know only from the migration `since` on. `older`: what older
    nodes do, to complete a sentence that begins with them."""

    def __init__(self, members: KnowingMembers, *, since: int, older: str) -> None:
        self._members = members
        self._since = since
        self._older = older

    def __call__(self) -> None:
        """Raises Conflict (older-nodes)."""
        if 0 < self._members.knows < self._since:
            raise Conflict("older-nodes", f"nodes run that {self._older}: upgrade them first")
