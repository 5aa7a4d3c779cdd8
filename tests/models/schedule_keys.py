"""An exhaustive model of `usecases.schedule_keys`: several processes put and delete one key, its schedules are called.

Modelled are the key's row (the schedule that took it with its revision, and the one that it is ahead at), and of each
schedule that a process may make whether it is announced, created, and how it ended. A process may die before each of
its steps, and the answer of each conditional write may be lost. The owner's callers claim and record at any time; an
owner also completes the replacement that a cancelled row names, and the key's row may be changed for it late.

With `forgets`, time deletes what ended: a row whose replacement is created, and what took the key while it is ahead.

A `put` makes another schedule at each try. All `chosen` are one request, repeated at any time, also before the first
has ended: a put whose schedule's id was chosen for good, equal to what the key may have at the start.

Checked in every state: at most one schedule of the key is created and not ended; a schedule is decided once, and not
after its request was answered. Checked at rest: every replaced schedule has a replacement that is created, and every
answered one exists.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.state_model import StateModel

OPEN, IN_FLIGHT, DELIVERED, CANCELLED = "", "in flight", "delivered", "cancelled"
DEAD, DONE = "dead", "done"
CHOSEN = "chosen"


class Row(NamedTuple):
    """One schedule. `replaced_by`: it was cancelled in favour of that one. `again`: it was decided a second time, or
    after its request was answered.
    """

    announced: bool = False
    created: bool = False
    state: str = OPEN
    replaced_by: int | None = None
    revision: int = 0
    decided: bool = False
    again: bool = False
    deleted: bool = False


class Ahead(NamedTuple):
    """The key is ahead at this schedule, relative to the schedule that took it with revision `base` (0: forgotten)."""

    number: int
    base: int


class Process(NamedTuple):
    """`at`: its next step. `head`: the schedule to which it has walked. `mine`: the one that it makes, of `revision`.
    `seen`: the revision of the schedule that took the key, as read; 0: none. `replaces`: the head was open when it was
    read, so it is cancelled for `mine`.
    """

    verb: str
    at: str = "read"
    head: int = -1
    mine: int = -1
    revision: int = 0
    seen: int = 0
    tries: int = 0
    replaces: bool = False
    answered: bool = False


class World(NamedTuple):
    """`late`: schedules that owners will write as ahead, and then create."""

    key: tuple[int, int] | None
    rows: tuple[Row, ...]
    processes: tuple[Process, ...]
    ahead: Ahead | None = None
    late: tuple[Ahead, ...] = ()

    @property
    def taken(self) -> int:
        return 0 if self.key is None else self.key[1]

    def row(self, number: int, **changes: object) -> "World":
        rows = list(self.rows)
        rows[number] = rows[number]._replace(**changes)  # type: ignore[arg-type]
        return self._replace(rows=tuple(rows))

    def moved(self, ahead: Ahead, *, ordered: bool = True) -> "World":
        """Move the key ahead to this schedule, unless it is at a later one already."""
        later = self.ahead is not None and self.rows[self.ahead.number].revision >= self.rows[ahead.number].revision
        return self if later and ordered else self._replace(ahead=ahead)

    def deciding(self, number: int) -> "World":
        """Note that the present step decides to make this schedule."""
        answered = any(process.answered and process.mine == number for process in self.processes)
        return self.row(number, decided=True, again=self.rows[number].decided or answered)


class Model(StateModel[World]):
    """`plants`: rules left out, by name: `unannounced` (the key's row is written before the announcement), `unordered`
    (the key goes back to an earlier schedule), `unbased` (the key's position ahead counts, whatever took it since),
    `uncounted` (only the schedule that took the key counts), `behind` (a schedule is created before the key is ahead at
    it), `unfollowed` (a cancelled row's replacement is not read), `uncompleted` (an announced schedule that the key
    names counts as absent), `unconditional` (the key is taken whatever its row says), `unchanged` (a chosen schedule is
    not made while an equal one waits), `early` (a chosen schedule is looked for before the present one).
    """

    TRIES = 2

    def __init__(
        self, verbs: Iterable[str], plants: Iterable[str] = (), *, made: bool = False, forgets: bool = False
    ) -> None:
        """`made`: the key has an open schedule at the start."""
        self.plants = frozenset(plants)
        self.forgets = forgets
        verbs = tuple(verbs)
        chosen = verbs.index(CHOSEN) * self.TRIES if CHOSEN in verbs else -1
        begin = "find" if "early" in self.plants else "read"
        processes = tuple(Process(verb, at=begin, mine=chosen) if verb == CHOSEN else Process(verb) for verb in verbs)
        unmade = (Row(),) * (len(processes) * self.TRIES)
        first = World(None, unmade, processes)
        if made:
            row = Row(announced=True, created=True, revision=1)
            first = World((len(unmade), 1), (*unmade, row), processes)
        self.first = first

    def wrong(self, world: World) -> str | None:
        callable_rows = [n for n, row in enumerate(world.rows) if row.created and row.state in (OPEN, IN_FLIGHT)]
        if len(callable_rows) > 1:
            return f"two are open: {callable_rows}"
        return next((f"{n} is made again" for n, row in enumerate(world.rows) if row.again), None)

    def wrong_at_rest(self, world: World) -> str | None:
        for number, row in enumerate(world.rows):
            if row.replaced_by is not None and not world.rows[row.replaced_by].created:
                return f"{number} was replaced by {row.replaced_by}, which is not there"
        for process in world.processes:
            if process.verb == "put" and process.answered and not world.rows[process.mine].created:
                return f"{process.mine} was answered and is not there"
        return None

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        for number, row in enumerate(world.rows):
            if row.created and row.state == OPEN:
                yield f"claim {number}", world.row(number, state=IN_FLIGHT)
            if row.state == IN_FLIGHT:
                yield f"deliver {number}", world.row(number, state=DELIVERED)
            if row.replaced_by is not None and not world.rows[row.replaced_by].created:
                coming = Ahead(row.replaced_by, world.taken)
                if coming not in world.late:
                    yield f"owner looks at {coming.number}", world._replace(late=tuple(sorted((*world.late, coming))))
        for coming in world.late:
            after = world._replace(late=tuple(one for one in world.late if one != coming))
            yield f"owner completes {coming.number}", self._completed(after, coming.number, base=coming.base)
        if self.forgets:
            yield from self._forgotten(world)
        for position, process in enumerate(world.processes):
            if process.at in (DEAD, DONE):
                continue
            for name, after, now in self._steps(world, process, position):
                processes = list(after.processes)
                processes[position] = now
                yield f"{position} {process.verb}: {name}", after._replace(processes=tuple(processes))
            processes = list(world.processes)
            processes[position] = process._replace(at=DEAD)
            yield f"{position} dies before {process.at}", world._replace(processes=tuple(processes))

    def _forgotten(self, world: World) -> Iterator[tuple[str, World]]:
        """Forgetting takes days, so no process is at work then."""
        if world.late or any(process.at not in ("read", DEAD, DONE) for process in world.processes):
            return
        for number, row in enumerate(world.rows):
            followed = row.replaced_by is None or world.rows[row.replaced_by].created
            if row.state in (DELIVERED, CANCELLED) and followed and not row.deleted:
                yield f"{number} is deleted", world.row(number, deleted=True)
        if world.key is not None and world.rows[world.key[0]].deleted:
            yield "the key is forgotten", world._replace(key=None)

    def _completed(self, world: World, number: int, *, base: int | None = None) -> World:
        base = world.taken if base is None else base
        if base < world.rows[number].revision:
            world = world.moved(Ahead(number, base), ordered="unordered" not in self.plants)
        return world.row(number, created=True)

    def _named(self, world: World) -> int | None:
        """The schedule that the key's row names."""
        ahead = world.ahead
        counts = ahead is not None and (world.key is None or ahead.base == world.taken or "unbased" in self.plants)
        if ahead is not None and counts and "uncounted" not in self.plants:
            return ahead.number
        return None if world.key is None else world.key[0]

    def _steps(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        step = {
            "read": self._read,
            "walk": self._walk,
            "find": self._find,
            "announce": self._announce,
            "take key": self._take_key,
            "look": self._look,
            "cancel": self._cancel,
            "move key": self._move_key,
            "create": self._create,
        }
        yield from step[process.at](world, process, position)

    def _read(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        if process.tries == self.TRIES:
            yield "gives up", world, process._replace(at=DONE)
        elif (named := self._named(world)) is None:
            if process.verb == "delete":
                yield "404", world, process._replace(at=DONE)
            else:
                now = self._drawn(process, position)._replace(head=-1, seen=0, replaces=False)
                yield "no key", world, now
        else:
            yield "key", world, process._replace(at="walk", head=named, seen=world.taken)

    def _walk(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        row = world.rows[process.head]
        if row.deleted:
            if process.verb == "delete":
                yield "404", world, process._replace(at=DONE)
            else:
                yield "deleted", world, self._drawn(process, position)._replace(replaces=False)
        elif row.replaced_by is not None and "unfollowed" not in self.plants:
            yield "follows", self._completed(world, row.replaced_by), process._replace(head=row.replaced_by)
        elif not row.created and "uncompleted" not in self.plants and row.announced:
            yield "completes", world.row(process.head, created=True), process
        elif process.verb == "delete":
            if row.state == OPEN and row.created:
                yield "will cancel", world, process._replace(at="cancel")
            else:
                yield f"409 {row.state}", world, process._replace(at=DONE)
        elif process.verb == CHOSEN and process.head == process.mine:
            yield "200, made", world, process._replace(at=DONE, answered=True)
        elif process.verb == CHOSEN and "unchanged" in self.plants and row.state in (OPEN, IN_FLIGHT):
            yield "200, an equal one", world, process._replace(at=DONE, answered=True)
        elif row.state == IN_FLIGHT:
            yield "409", world, process._replace(at=DONE)
        else:
            replaces = row.state == OPEN and row.created
            yield f"head {row.state}", world, self._drawn(process, position)._replace(replaces=replaces)

    def _drawn(self, process: Process, position: int) -> Process:
        """The present schedule has been read; decide what to make now."""
        if process.verb == CHOSEN:
            return process._replace(at="announce" if "early" in self.plants else "find", tries=process.tries + 1)
        return process._replace(at="announce", mine=position * self.TRIES + process.tries, tries=process.tries + 1)

    def _find(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        """Whether the chosen schedule is made. One that is only decided was completed on the way to the present one, or
        decides the following conditional write.
        """
        if world.rows[process.mine].created:
            yield "200, was made", world, process._replace(at=DONE, answered=True)
        else:
            yield "not made", world, process._replace(at="read" if "early" in self.plants else "announce")

    def _announce(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        head = world.rows[process.head] if process.head >= 0 else None
        revision = 1 if head is None else head.revision + 1
        announced = "unannounced" not in self.plants or process.replaces
        after = world.row(process.mine, announced=announced, revision=revision)
        yield "announces", after, process._replace(at="cancel" if process.replaces else "take key", revision=revision)

    def _take_key(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        if world.taken == process.seen or "unconditional" in self.plants:
            after = world._replace(key=(process.mine, process.revision)).deciding(process.mine)
            yield "takes the key", after, process._replace(at="create")
            yield "takes the key, lost", after, process._replace(at="look")
        else:
            yield "rejected", world, process._replace(at="read")

    def _look(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        """The answer about the key was lost. The schedule that the key names, or named, is created before the key moves
        on.
        """
        ours = world.rows[process.mine]
        if (world.key is not None and world.key[0] == process.mine) or ours.created:
            yield "ours", world, process._replace(at="create")
        else:
            yield "not ours", world, process._replace(at="read")

    def _cancel(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        row, deletes = world.rows[process.head], process.verb == "delete"
        if row.state == OPEN and row.created:
            replaced_by = None if deletes else process.mine
            after = world.row(process.head, state=CANCELLED, replaced_by=replaced_by)
            after = after if deletes else after.deciding(process.mine)
            yield "cancels", after, process._replace(at=DONE if deletes else "move key", answered=deletes)
            yield "cancels, lost", after, process
        elif not deletes and row.replaced_by == process.mine:
            yield "has cancelled", world, process._replace(at="move key")
        else:
            yield "rejected", world, process._replace(at="read", tries=process.tries + deletes)

    def _move_key(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        ahead, after = Ahead(process.mine, process.seen), world
        if "behind" in self.plants:
            after = world.row(process.mine, created=True)
            yield "creates", after, process._replace(at=DONE, answered=True)
        after = world.moved(ahead, ordered="unordered" not in self.plants)
        yield "moves the key", after, process._replace(at="create")

    def _create(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        yield "creates", world.row(process.mine, created=True), process._replace(at=DONE, answered=True)


if __name__ == "__main__":
    import sys

    print(Model(sys.argv[1].split(","), sys.argv[2:], made=True).walk())
