"""Plans: what is about to be created of a partition, stored with the group's offset before it is sent. Pure.

    commit(offset 120, plan: records 120 to 319 under token T) ─▶ create them under T ─▶ commit(offset 320, the next)

The next owner of the partition finds the plan with the offset. It takes the same records, sends the same bytes under
the same token, and so makes the same ids: nothing twice. Kafka keeps the plan as the metadata of the committed offset,
in one write with it.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from minutehand.ingest.records import Cancel, Create, Poison, Reading
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.once import OnceIds, parse_once
from scheduler_service.usecases.schedule_request import ScheduleRequest, unjudged_due

MAX_ITEMS: Final = 1000
"""Of a batch of the API."""
_FORM: Final = "minutehand-1"
_BROKEN: Final = "-"
"""In place of a fingerprint; no records have it."""
_decode_request = msgspec.json.Decoder(ScheduleRequest).decode


class Plan(NamedTuple):
    """The creates among the records up to offset `end`, exclusive, go under `token`. What was due before `oldest` (Unix
    milliseconds) is due then. `fingerprint`: of the bytes that are sent. `left`: a bit for each create that is still to
    be made, if an earlier token made the others; None: all."""

    end: int
    token: str
    oldest: int
    fingerprint: str
    left: int | None = None

    def text(self) -> str:
        """The metadata of the committed offset; below 400 characters."""
        left = "-" if self.left is None else f"{self.left:x}"
        return f"{_FORM} {self.end} {self.token} {self.oldest} {self.fingerprint} {left}"

    @property
    def broken(self) -> bool:
        """Whether its records are known to be no more what they were."""
        return self.fingerprint == _BROKEN

    def break_at(self, end: int) -> "Plan":
        """This plan, of which nothing but doubt is left, up to `end`."""
        return self._replace(end=end, fingerprint=_BROKEN)

    def contradicted_by(self, readings: Iterable[Reading]) -> bool:
        """Whether it can't be the plan of records that begin so: it has no cancels, and one batch of creates."""
        creates = 0
        for reading in readings:
            creates += isinstance(reading, Create)
            if isinstance(reading, Cancel) or creates > MAX_ITEMS:
                return True
        return False

    def among(self, creates: Sequence[Create]) -> list[int]:
        """The positions of the creates that are to be made."""
        return [at for at in range(len(creates)) if self.left is None or self.left >> at & 1]


def read_plan(metadata: str | None) -> Plan | None:
    """The plan in the metadata of a committed offset; None where there is none of ours."""
    form, *parts = (metadata or "").split(" ")
    if form != _FORM or len(parts) != 5:
        return None
    end, token, oldest, fingerprint, left = parts
    try:
        parse_once(token)
        return Plan(int(end), token, int(oldest), fingerprint, None if left == "-" else int(left, 16))
    except ValueError:
        return None


def plan_within(plan: Plan | None, *, offset: int, end: int) -> Plan | None:
    """What is left of a plan that was found with `offset`, in a log that ends at `end`. One that reaches beyond it was
    cut off: the records that are left are in doubt, and those that will be written there are new ones."""
    if plan is None or plan.end <= end:
        return plan
    return plan.break_at(end) if end > offset else None


def left_of(positions: Sequence[int]) -> int:
    return sum(1 << at for at in positions)


def items_of(creates: Sequence[Create], positions: Sequence[int], *, oldest: int) -> list[bytes]:
    """The items of the batch. Those due before `oldest` are due from then on, a millisecond apart, in their order."""
    overdue = {due for at in positions if (due := creates[at].due) is not None and due < oldest}
    moved: dict[int | None, int] = {due: oldest + turn for turn, due in enumerate(sorted(overdue))}
    return [creates[at].json(moved_to=moved.get(creates[at].due)) for at in positions]


def body_of(items: Sequence[bytes]) -> bytes:
    return b'{"items":[' + b",".join(items) + b"]}"


def fingerprint_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=12).hexdigest()


class Portion(NamedTuple):
    """So many first records of a partition are handled together."""

    records: int
    cancels: bool


def next_portion(readings: Sequence[Reading], *, most_items: int, most_bytes: int) -> Portion:
    """The longest portion of creates and puts, or of cancels; what can't be understood goes with either. At least one.

    A portion of cancels never holds two different things of one key, because a put of it would end it."""
    kind: type[Create] | type[Cancel] | None = None
    size = items = 0
    for count, reading in enumerate(readings):
        if isinstance(reading, Poison):
            continue
        mine: type[Create] | type[Cancel] = type(reading)
        if kind is not None and mine is not kind:
            return Portion(count, kind is Cancel)
        kind, items = mine, items + 1
        size += reading.size if isinstance(reading, Create) else 0
        if items > 1 and (items > most_items or size > most_bytes):
            return Portion(count, kind is Cancel)
    return Portion(len(readings), kind is Cancel)


def ids_under(token: str, client_id: str, body: bytes, items: Sequence[bytes]) -> list[ScheduleId | None]:
    """The ids that the API has given the items of a batch under a token, if it has made them (`domain.once` says how).
    None: it can't have made this one."""
    once = parse_once(token)
    ids, now = OnceIds(ClientId(client_id), once, body), once.asked_at
    judged: list[tuple[ScheduleRequest, UnixMillis, UnixMillis] | None] = []
    for position, item in enumerate(items):
        try:
            request = _decode_request(item)
        except msgspec.DecodeError:
            judged.append(None)
            continue
        point = ids.point(position) if request.window_seconds else 0
        judged.append((request, *unjudged_due(request, now=now, point=point)))
    late = sorted({one[1] for one in judged if one is not None and one[2] == now})
    turns = {asked: turn for turn, asked in enumerate(late)} if len(late) > 1 else {}
    found: list[ScheduleId | None] = []
    for position, one in enumerate(judged):
        if one is None:
            found.append(None)
            continue
        request, asked, due = one
        turned = due + turns.get(asked, 0) if due == now else due
        flow = request.callback.flow_key
        pin = request.ordering_key if flow is None else flow
        found.append(ids.at(position, due=turned, pin=pin)[1])
    return found
