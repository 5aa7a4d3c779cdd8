"""Admit: whether anything new may be made for a client right now, whatever it is."""

from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import ClientSuspended, Conflict
from scheduler_service.usecases.admission import JudgeClock


class AdmitCreates:
    """Judges clients that the caller has looked up, and this process's clock."""

    def __init__(self, *, judge_clock: JudgeClock) -> None:
        self._judge_clock = judge_clock

    def __call__(self, client: Client) -> None:
        """Raises ClientSuspended; Conflict for clients whose rows Minutehand makes itself; ClockInDoubt."""
        if client.state is ClientState.SUSPENDED:
            raise ClientSuspended(f"client {client.client_id!r} is suspended: an administrator must resume it first")
        self.work(client)

    def work(self, client: Client) -> None:
        """The same for work that makes no calls, which a suspended client may have done."""
        if client.built_in:
            raise Conflict("built-in-client", f"{client.client_id!r} is Minutehand's own: it takes no work of yours")
        self._judge_clock()
