"""An exhaustive model of a client's feed: owners append the ends of one poller's minute, a reader follows them.

Modelled are the lease (its epoch, and whether its watermark has passed the minute), the rows (recorded under a fence,
or cancelled by somebody else), the track's blocks and events as storage has them, and the mark of the cancelled row.
Each owner takes the poller from the one before, which may go on as if nothing had happened; one that does nothing any
more is dead. A request may take effect at any time after it was sent. What an owner has sent and got no answer to, it
repeats, which is the same request.

A read is no snapshot. It sees all that was acknowledged before it began, and any part of what is written meanwhile:
also a later event without an earlier one.

Row 0 is cancelled from the beginning, and its owner may have been told of that before the sweep (`hinted`).

Checked in every state in which the watermark has passed, so that nobody appends any more: a reader that goes on from
where it is gets every row. Plants leave out one rule each:

    unserial      a batch is sent before the one before is acknowledged
    early-settle  the minute settles before its events are acknowledged
    late-block    a block's row is written after its first event is sent
    hasty         the reader goes to a later block without a second look at the blocks
    unread-end    the reader goes on without having read its block after the later one was seen
    gaps          the reader takes the events that a read shows, whatever is missing between them
    unverified    the row is marked without a look at the lease after its event was acknowledged
    early-mark    the row is marked before its event is acknowledged
"""

from collections.abc import Callable, Collection, Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tests.models.state_model import StateModel

Position = tuple[int, int, int]
"""Epoch, block, seq: the reader is behind that event. -1: before the first one of the block."""
Write = tuple[int, int, int, int]
"""Epoch, block, seq, row. Seq -1: the block's own row."""
BLOCK, MARK = -1, -2
Become: TypeAlias = Callable[..., tuple[str, "World"]]


class Owner(NamedTuple):
    """`opened`: it has read the minute. `known`: the ended rows that it knows of; `told`: those whose events it takes
    for stored. `sent`: requests without an answer. `hint`: what it does about the cancelled row before the sweep."""

    began: bool = False
    opened: bool = False
    known: frozenset[int] = frozenset()
    told: frozenset[int] = frozenset()
    block: int = -1
    seq: int = 0
    sent: frozenset[Write] = frozenset()
    settled: bool = False
    hint: str = ""


class Reader(NamedTuple):
    """`at`: its next step. `start`: what there was when its read began. `first`: the last block of the first look;
    `target`: where it goes behind the end of its block."""

    at: str = "look"
    position: Position = (0, 0, -1)
    start: frozenset[Write] = frozenset()
    first: frozenset[Write] = frozenset()
    target: tuple[int, int] | None = None
    most: int = -1
    seen: frozenset[int] = frozenset()


class World(NamedTuple):
    epoch: int
    passed: bool
    opened_by: int
    recorded: frozenset[int]
    marked: bool
    stored: frozenset[Write]
    owners: tuple[Owner, ...]
    reader: Reader


class Model(StateModel[World]):
    """`rows` of one minute, the first of which is cancelled; `owners` one after another; blocks of `size` events."""

    def __init__(
        self, *, rows: int, owners: int, size: int, hinted: bool = False, plants: Collection[str] = ()
    ) -> None:
        self._rows = frozenset(range(rows))
        self._owners = owners
        self._size = size
        self._hinted = hinted
        self._plants = frozenset(plants)
        self._reached: dict[tuple[frozenset[Write], Reader], bool] = {}
        self.first = World(
            epoch=1,
            passed=False,
            opened_by=0,
            recorded=frozenset({0}),
            marked=False,
            stored=frozenset(),
            owners=(Owner(began=True), *[Owner()] * (owners - 1)),
            reader=Reader(),
        )

    def wrong(self, world: World) -> str | None:
        return "a row is missed" if world.passed and not self._reaches_all(world) else None

    def _reaches_all(self, world: World) -> bool:
        """Whether the reader, going on alone, sees every row."""
        key = world.stored, world.reader
        if key not in self._reached:
            self._reached[key] = self._rested(world).reader.seen == self._rows
        return self._reached[key]

    def _rested(self, world: World) -> World:
        """The world once the reader finds nothing more. Of a read under way it gets the least; what else it may get is
        a state of its own."""
        before = None
        while True:
            _, world = next(self._reader_steps(world))
            if world.reader.at == "look":
                if world.reader == before:
                    return world
                before = world.reader

    # Owners.

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        for number, owner in enumerate(world.owners):
            if owner.began:
                yield from self._owner_steps(world, number, owner)
        last = sum(owner.began for owner in world.owners)
        if last < self._owners and not world.passed:
            owners = list(world.owners)
            owners[last] = Owner(began=True)
            yield f"owner {last + 1} takes the poller", world._replace(epoch=last + 1, owners=tuple(owners))
        yield from self._reader_steps(world)

    def _owner_steps(self, world: World, number: int, owner: Owner) -> Iterator[tuple[str, World]]:
        epoch, called = number + 1, f"owner {number + 1}"

        def become(name: str, changed: Owner, **others: object) -> tuple[str, World]:
            owners = list(world.owners)
            owners[number] = changed
            return f"{called} {name}", world._replace(owners=tuple(owners), **others)  # type: ignore[arg-type]

        for write in owner.sent:
            if write[2] == MARK and not world.marked:
                yield become("has marked", owner, marked=True)
            elif write[2] != MARK and write not in world.stored:
                yield become(f"has stored {write}", owner, stored=world.stored | {write})
        yield from self._hint_steps(world, owner, epoch, become)
        if not owner.opened and world.opened_by < epoch:
            told = frozenset({0}) if world.marked else frozenset()
            known = world.recorded
            yield become("opens", owner._replace(opened=True, known=known, told=owner.told | told), opened_by=epoch)
        for row in self._rows - world.recorded:
            if owner.opened and world.opened_by == epoch:
                yield become(
                    f"records {row}",
                    owner._replace(known=owner.known | {row}),
                    recorded=world.recorded | {row},
                )
        yield from self._appends(world, owner, epoch, become)
        told_all = owner.told >= self._rows or "early-settle" in self._plants
        if owner.opened and owner.known == self._rows and told_all and not owner.settled:
            yield become("settles", owner._replace(settled=True))
        if owner.settled and world.epoch == epoch and not world.passed:
            yield become("passes the minute", owner, passed=True)

    def _hint_steps(self, world: World, owner: Owner, epoch: int, become: Become) -> Iterator[tuple[str, World]]:
        """Before it has read the minute it tells of the cancel, and marks the row if its lease still holds then."""
        if self._hinted and not owner.hint and not owner.opened and 0 not in owner.told:
            yield become("hears of the cancel", owner._replace(hint="tell"))
        if owner.hint == "told" or (owner.hint == "tell" and "early-mark" in self._plants):
            if "unverified" in self._plants or world.epoch == epoch:
                mark = (epoch, 0, MARK, 0)
                yield become("sends the mark", owner._replace(hint="done", sent=owner.sent | {mark}))
            else:
                yield become("finds its lease lost", owner._replace(hint="lost"))

    def _appends(self, world: World, owner: Owner, epoch: int, become: Become) -> Iterator[tuple[str, World]]:
        """Answers, and the next request."""
        events = frozenset(write for write in owner.sent if write[2] >= 0)
        for write in owner.sent:
            if write[2] == MARK or write in world.stored:
                told, hint = owner.told, owner.hint
                if write[2] >= 0:
                    told |= {write[3]}
                    hint = "told" if hint == "tell" and write[3] == 0 else hint
                yield become(f"is answered {write}", owner._replace(sent=owner.sent - {write}, told=told, hint=hint))
        wanted = owner.known if owner.opened else frozenset[int]()
        if owner.hint == "tell":
            wanted |= {0}
        wanted -= owner.told | {write[3] for write in events}
        waits = bool([write for write in owner.sent if write[2] != MARK])
        if not wanted or (waits and "unserial" not in self._plants and "late-block" not in self._plants):
            return
        if "unserial" not in self._plants and events:
            return
        if owner.block < 0 or owner.seq >= self._size:
            if waits and "late-block" not in self._plants:
                return
            begun = (epoch, owner.block + 1, BLOCK, -1)
            yield become(f"begins {begun}", owner._replace(block=owner.block + 1, seq=0, sent=owner.sent | {begun}))
            return
        event = (epoch, owner.block, owner.seq, min(wanted))
        yield become(f"appends {event}", owner._replace(seq=owner.seq + 1, sent=owner.sent | {event}))

    # The reader.

    def _reader_steps(self, world: World) -> Iterator[tuple[str, World]]:
        reader = world.reader
        epoch, block, seq = reader.position
        blocks = frozenset(one for one in world.stored if one[2] == BLOCK and one[:2] > (epoch, block))
        mine = frozenset(one for one in world.stored if one[:2] == (epoch, block) and one[2] > seq)
        match reader.at:
            case "look" | "look again":
                yield self._read(world, reader.at + ", end", start=blocks)
            case "look, end":
                for found in _results(reader.start, blocks):
                    if not found:
                        yield self._read(world, "events", first=found)
                    elif "hasty" in self._plants:
                        yield self._read(world, "events", target=min(found)[:2])
                    elif "unread-end" in self._plants:
                        yield self._moved(world, min(found)[:2])
                    else:
                        yield self._read(world, "look again", first=frozenset({max(found)}))
            case "look again, end":
                for found in _results(reader.start, blocks):
                    yield self._read(world, "events", target=min(found | reader.first)[:2])
            case "events" | "events again":
                yield self._read(world, reader.at + ", end", start=mine, first=frozenset(), target=reader.target)
            case "events, end":
                for found in _results(reader.start, mine):
                    seqs = sorted(one[2] for one in found)
                    if seqs == list(range(seq + 1, seq + 1 + len(seqs))) or "gaps" in self._plants:
                        yield self._taken(world, found)
                    else:
                        yield self._read(world, "events again", most=seqs[-1], target=reader.target)
            case _:
                for found in _results(reader.start, mine):
                    yield self._taken(world, _without_gaps(found, surely=reader.most))

    def _read(
        self,
        world: World,
        at: str,
        *,
        start: frozenset[Write] = frozenset(),
        first: frozenset[Write] | None = None,
        target: tuple[int, int] | None = None,
        most: int | None = None,
    ) -> tuple[str, World]:
        reader = world.reader
        following = reader._replace(
            at=at,
            start=start,
            first=reader.first if first is None else first,
            target=target,
            most=reader.most if most is None else most,
        )
        return f"the reader: {at}", world._replace(reader=following)

    def _taken(self, world: World, found: frozenset[Write]) -> tuple[str, World]:
        """The reader has these events, and goes on behind them, or behind its block."""
        reader = world.reader
        epoch, block, seq = reader.position
        position = (epoch, block, max([seq, *(one[2] for one in found)]))
        if reader.target is not None:
            position = (*reader.target, -1)
        seen = reader.seen | {one[3] for one in found}
        following = Reader(position=position, seen=seen)
        return f"the reader takes {sorted(found)}", world._replace(reader=following)

    def _moved(self, world: World, target: tuple[int, int]) -> tuple[str, World]:
        return "the reader goes on", world._replace(reader=Reader(position=(*target, -1), seen=world.reader.seen))


def _results(start: frozenset[Write], now: frozenset[Write]) -> Iterator[frozenset[Write]]:
    """What a read may answer: what there was at its start, with any of what came since."""
    came = sorted(now - start)
    for size in range(len(came) + 1):
        for some in combinations(came, size):
            yield start | frozenset(some)


def _without_gaps(found: frozenset[Write], *, surely: int) -> frozenset[Write]:
    """Up to seq `surely`, which was seen before this read began, nothing is missing; behind it, up to the first gap."""
    seqs = {one[2] for one in found}
    end = surely
    while end + 1 in seqs:
        end += 1
    return frozenset(one for one in found if one[2] <= end)
