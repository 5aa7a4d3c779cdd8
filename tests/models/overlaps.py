"""An exhaustive model of the run of a cron that holds its key (`minute.ordering`, `minute.admission`,
`crons.fire_guard`): two or three runs of one cron, whose policy says what becomes of one that is due while another has
not ended.

Modelled are the runs as they are stored (state, whether in flight, whether called since the last redelivery), what
their owner knows of them, and which of them holds the key. A page that is under way shows a run as it was when it was
read. Any step may come arbitrarily late, so a pause of the client, a receiver without room and a slow store are in
every walk.

Each of these happens once at most, in the walks that name it:

    death        the owner dies anywhere, and the next one knows nothing
    loss         the answer of a claim is lost; it is repeated
    cancel       a client, or the cron's pause, cancels a run that is not in flight
    redelivery   a run that has ended is delivered again by hand
    page         a page is read without need, such as a sweep's, and arrives later
    back         a claimed run is given back unsent
    late         the first run is created late, and found after others

Checked in every step: a run is called only while no other has started and not ended; one is skipped only if another
one was unfinished (under `buffer_one`: two) at some time since it was due; `cancel_other` cancels only the older of
two; `buffer_all` skips and cancels none, and starts the runs in their order. Checked at rest: each run has ended, none
waits, and none holds the key.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.models.state_model import StateModel

ABSENT, OPEN, RETRYING, CARRIED, DELIVERED, SKIPPED, CANCELLED = "absent", "open", "retrying", "carried", "D", "S", "X"
"""`CARRIED`: the retry row has ended, its original does not say so yet."""
ENDED = (DELIVERED, SKIPPED, CANCELLED)
SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER = "skip", "buffer_one", "buffer_all", "cancel_other"
POLICIES = (SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER)
FAULTS = ("death", "loss", "cancel", "redelivery", "page", "back", "late")
TRIES = 2

# What the owner does with a run.
NOTHING, WAITS, CLAIMING, CLAIMED, SENT, SUCCEEDED, FAILED, SKIPPING, GIVING_WAY = (
    "nothing",
    "waits",
    "claiming",
    "claimed",
    "sent",
    "succeeded",
    "failed",
    "skipping",
    "giving_way",
)
BUSY = (CLAIMING, CLAIMED, SENT, SUCCEEDED, FAILED)


class Run(NamedTuple):
    """As stored. `life`: how often it was redelivered. `started`: called since. `flight`: named in `in_flight`.
    `tries`: of this life. `excused`: the most others that were unfinished before it at once since it was `due`."""

    state: str = OPEN
    life: int = 0
    started: bool = False
    flight: bool = False
    tries: int = 0
    due: bool = False
    excused: int = 0

    @property
    def open(self) -> bool:
        return self.state in (OPEN, RETRYING)

    @property
    def under_way(self) -> bool:
        return self.started and self.open


class Holder(NamedTuple):
    number: int
    calling: bool


class Known(NamedTuple):
    """What the owner knows of a run. `at`: what it does with it. `life`: the last delivery that it knows of; `queued`,
    `ended`: where that one is. `doubt`: perhaps called by the owner before."""

    at: str = NOTHING
    life: int = 0
    queued: bool = False
    ended: bool = False
    doubt: bool = False
    read: bool = False


class Page(NamedTuple):
    """A read under way, with what it will show."""

    number: int
    run: Run


class Check(NamedTuple):
    """A look at the runs before one that may be skipped, or may cancel them."""

    judged: int
    seen: tuple[Page, ...]


class World(NamedTuple):
    runs: tuple[Run, ...]
    known: tuple[Known, ...]
    holders: tuple[Holder, ...] = ()
    page: Page | None = None
    spare: Page | None = None
    """A page that was read without need: it tells of the order, and finds nothing to do."""
    check: Check | None = None
    left: frozenset[str] = frozenset()
    """Faults that may still happen."""
    wrong: str = ""

    def stored(self, number: int, **changes: object) -> "World":
        return self._replace(runs=_with(self.runs, number, self.runs[number]._replace(**changes)))  # type: ignore[arg-type]

    def knows(self, number: int, **changes: object) -> "World":
        known = self.known[number]._replace(**changes)  # type: ignore[arg-type]
        return self._replace(known=_with(self.known, number, known))

    def without(self, fault: str) -> "World":
        return self._replace(left=self.left - {fault})

    def holder(self, number: int) -> Holder | None:
        return next((one for one in self.holders if one.number == number), None)

    def called_off(self, number: int) -> "World":
        """This run is not claimed any more."""
        holders = tuple(one._replace(calling=False) if one.number == number else one for one in self.holders)
        return self._replace(holders=holders)


class Model(StateModel[World]):
    """`plants`: rules left out, by name.

    `unheld`: a run that waits for its retry holds nothing. `unclaimed`: nor does a claimed one. `undoubted`: nor does
    one that was found in doubt. `hasty`: an owner judges before it has read all runs. `early`: a policy is applied
    before the run is due. `stale`: a run is skipped without a look at those before it. `single`: only the first that is
    found started holds the key. `lifeless`: what has ended once is not held or waited for again, though it was
    redelivered. `newer`: a run cancels a later one too. `unlooked`: nobody looks whether a run that is waited for has
    ended. `unwaited`: a redelivered run waits for none. `dropping`: runs that wait are skipped under `buffer_all` too.
    """

    def __init__(self, policy: str, faults: Iterable[str], plants: Iterable[str] = (), *, runs: int = 2) -> None:
        self.policy = policy
        self.plants = frozenset(plants)
        faults = frozenset(faults)
        first = Run(state=ABSENT) if "late" in faults else Run()
        self.late = "late" in faults
        self.first = World((first, *(Run() for _ in range(1, runs))), tuple(Known() for _ in range(runs)), left=faults)

    def wrong(self, world: World) -> str:
        return world.wrong

    def wrong_at_rest(self, world: World) -> str:
        for number, run in enumerate(world.runs):
            if run.state not in (*ENDED, ABSENT):
                return f"{number} waits for ever"
        return "the key is held for ever" if world.holders else ""

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        return ((name, _excused(after)) for name, after in self._steps(world))

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._outside(world)
        if "death" in world.left:
            known = tuple(Known() for _ in world.runs)
            dead = world.without("death")._replace(known=known, holders=(), page=None, spare=None, check=None)
            yield "the owner dies", dead
        yield from self._reads(world)
        if world.check is not None:
            yield from self._checked(world, world.check)
        for number, run in enumerate(world.runs):
            step = getattr(self, f"_{world.known[number].at}", None)
            if step is not None:
                for name, after in step(world, number, run):
                    yield f"{number} {name}", after

    # Clients, and time.

    def _outside(self, world: World) -> Iterator[tuple[str, World]]:
        undue = next((number for number, run in enumerate(world.runs) if not run.due), None)
        if undue is not None:
            yield f"{undue} is due", world.stored(undue, due=True)
        for number, run in enumerate(world.runs):
            if run.state == ABSENT and "late" in world.left:
                yield f"{number} is created", world.without("late").stored(number, state=OPEN)
            if "cancel" in world.left and run.open and not run.flight:
                yield f"{number} is cancelled", world.without("cancel").stored(number, state=CANCELLED)
            if "redelivery" in world.left and run.state in (DELIVERED, SKIPPED):
                again = run._replace(state=RETRYING, life=run.life + 1, started=False, tries=0)
                yield f"{number} is redelivered", world.without("redelivery").stored(number, **again._asdict())
            if run.state == CARRIED:
                yield f"{number}'s end is carried", world.stored(number, state=DELIVERED)

    # Reads by the owner.

    def _reads(self, world: World) -> Iterator[tuple[str, World]]:
        for number, known in enumerate(world.known):
            page = Page(number, world.runs[number])
            if world.page is None and self._wants(world, number):
                yield f"{number} is being read", world._replace(page=page)
            if "page" in world.left and known.read:
                yield f"{number} is being read again", world.without("page")._replace(spare=page)
        if (read := world.page) is not None:
            after = self._read(world._replace(page=None), read.number, read.run, spare=False)
            yield f"{read.number} was read", after
        if (read := world.spare) is not None:
            after = self._read(world._replace(spare=None), read.number, read.run, spare=True)
            yield f"{read.number} was read again", after

    def _wants(self, world: World, number: int) -> bool:
        known, run = world.known[number], world.runs[number]
        if run.state == ABSENT:
            return False
        if not known.read:
            return True
        if run.state in ENDED:
            if "unlooked" in self.plants:
                return False
            return known.at == NOTHING and (known.queued or not known.ended or world.holder(number) is not None)
        return run.open and known.at == NOTHING

    def _read(self, world: World, number: int, run: Run, *, spare: bool) -> World:
        """A page shows this run."""
        world = world.knows(number, read=True)
        known = world.known[number]
        if run.state in ENDED:
            world = self._ended(world, number, run.life)
            return world.knows(number, at=NOTHING) if world.known[number].at == WAITS else world
        if run.state == CARRIED:
            # The original names a retry row that has ended already, which this owner reads as well or not yet.
            return self._started(self._queued(world, number, run.life), number, run.life)
        world = self._queued(world, number, run.life)
        if run.state == RETRYING and run.started and not run.flight:
            world = self._started(world, number, run.life)
        if known.at == NOTHING and not spare:
            if run.flight and "undoubted" not in self.plants:
                world = self._started(world, number, run.life)
            world = world.knows(number, at=WAITS, doubt=run.flight)
        return world

    def _learnt(self, world: World, number: int, life: int) -> World | None:
        """Something is said of this delivery of a run: of a later one than was known, it replaces all that was known;
        of an earlier one, it is outdated (None)."""
        known = world.known[number]
        if life == known.life or "lifeless" in self.plants:
            return world
        if life < known.life:
            return None
        holders = tuple(one for one in world.holders if one.number != number)
        return world.knows(number, life=life, queued=False, ended=False)._replace(holders=holders)

    def _queued(self, world: World, number: int, life: int) -> World:
        learnt = self._learnt(world, number, life)
        if learnt is None or learnt.known[number].ended or (life > 0 and "unwaited" in self.plants):
            return learnt or world
        return learnt.knows(number, queued=True)

    def _started(self, world: World, number: int, life: int, *, calling: bool = False) -> World:
        learnt = self._learnt(world, number, life)
        if learnt is None or (learnt.known[number].ended and not calling):
            return learnt or world
        holder = learnt.holder(number)
        if holder is not None:
            if holder.calling or not calling:
                return learnt
            holders = tuple(one._replace(calling=True) if one.number == number else one for one in learnt.holders)
            return learnt._replace(holders=holders)
        if (learnt.holders and "single" in self.plants) or (calling and "unclaimed" in self.plants):
            return learnt
        return learnt._replace(holders=(*learnt.holders, Holder(number, calling)))

    def _ended(self, world: World, number: int, life: int) -> World:
        """This delivery of the run has ended."""
        learnt = self._learnt(world, number, life)
        if learnt is None:
            return world
        holders = tuple(one for one in learnt.holders if one.number != number)
        return learnt.knows(number, queued=False, ended=True)._replace(holders=holders)

    # Judging.

    def _ahead(self, world: World, number: int) -> list[int]:
        """The runs that must end before this one, those that have started first."""
        holders = [one.number for one in world.holders]
        if number in holders:
            return holders[: holders.index(number)]
        queue = [other for other in range(number) if world.known[other].queued and other not in holders]
        return holders + queue

    def _waits(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        if "hasty" not in self.plants and any(
            not known.read and other.state != ABSENT for known, other in zip(world.known, world.runs, strict=True)
        ):
            return
        if world.check is not None and world.check.judged == number:
            return
        ahead, known = self._ahead(world, number), world.known[number]
        if "unwaited" in self.plants and run.life:
            ahead = []
        if not ahead:
            admitted = self._started(world.knows(number, at=CLAIMING), number, run.life, calling=True)
            yield "is admitted", admitted
            return
        if known.doubt or run.life or run.state == RETRYING:
            return
        if not run.due and "early" not in self.plants:
            return
        calling = any(one.calling for one in world.holders)
        if self.policy == SKIP or (self.policy == BUFFER_ONE and len(ahead) > 1):
            if "stale" in self.plants:
                yield "is to be skipped", world.knows(number, at=SKIPPING)
            elif world.check is None:
                yield from self._look(world, number, ahead)
        elif self.policy == CANCEL_OTHER and not calling and world.check is None:
            yield from self._look(world, number, ahead)
        elif self.policy == BUFFER_ALL and "dropping" in self.plants:
            yield "is to be skipped", world.knows(number, at=SKIPPING)

    def _look(self, world: World, number: int, ahead: list[int]) -> Iterator[tuple[str, World]]:
        seen = tuple(Page(one, world.runs[one]) for one in ahead[: self._needed])
        yield "is checked", world._replace(check=Check(number, seen))

    @property
    def _needed(self) -> int:
        """How many others must be unfinished for a run to be skipped."""
        return 2 if self.policy == BUFFER_ONE else 1

    def _checked(self, world: World, check: Check) -> Iterator[tuple[str, World]]:
        number, name = check.judged, f"{check.judged} was checked"
        world = world._replace(check=None)
        for one, run in check.seen:
            if run.state in ENDED:
                world = self._ended(world, one, run.life)
        unfinished = [one for one, run in check.seen if run.state not in ENDED]
        if world.known[number].at != WAITS or len(unfinished) < self._needed:
            yield name, world
        elif self.policy != CANCEL_OTHER:
            yield name, world.knows(number, at=SKIPPING)
        elif unfinished[0] > number and "newer" not in self.plants:
            yield name, world.knows(number, at=GIVING_WAY)
        else:
            other = unfinished[0]
            run = world.runs[other]
            if run.open and not run.flight:
                wrong = "a later run is cancelled" if other > number else ""
                after = world.stored(other, state=CANCELLED)._replace(wrong=wrong)
                yield f"{number} cancels {other}", self._ended(after, other, run.life)
            else:
                yield name, world

    # Claims, calls and outcomes.

    def _claiming(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        if not run.open:
            after = world.knows(number, at=NOTHING)
            yield "has ended, its claim is void", after
            return
        applied = world.stored(number, flight=True)
        yield "is claimed", applied.knows(number, at=CLAIMED)
        if "loss" in world.left:
            yield "is claimed, lost", applied.without("loss")

    def _claimed(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        if run.due:
            after = world.stored(number, started=True).knows(number, at=SENT)
            yield "is called", after._replace(wrong=self._wrong_call(world, number, run))
        if "back" in world.left:
            after = world.without("back").stored(number, flight=world.known[number].doubt).knows(number, at=WAITS)
            yield "is given back", after

    def _wrong_call(self, world: World, number: int, run: Run) -> str:
        others = [(other, one) for other, one in enumerate(world.runs) if other != number]
        if any(one.under_way for _, one in others):
            return "two are under way"
        if self.policy == BUFFER_ALL and not self.late and run.life == 0 and not run.started:
            called = [
                one.life == 0 and (one.started or one.state == DELIVERED) for other, one in others if other > number
            ]
            return "a later run was called first" if any(called) else ""
        return ""

    def _sent(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        yield "succeeds", world.knows(number, at=SUCCEEDED)
        if run.tries + 1 < TRIES:
            yield "fails", world.knows(number, at=FAILED)

    def _succeeded(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        state = CARRIED if run.state == RETRYING else DELIVERED
        after = world.stored(number, state=state, flight=False).knows(number, at=NOTHING, doubt=False)
        yield "is delivered", self._ended(after, number, run.life)

    def _failed(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        after = world.stored(number, state=RETRYING, flight=False, tries=run.tries + 1)
        after = after.knows(number, at=NOTHING, doubt=False)
        if "unheld" in self.plants:
            after = after._replace(holders=tuple(one for one in after.holders if one.number != number))
        yield "is to be retried", after.called_off(number)

    def _skipping(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        if not run.open:
            yield "has ended otherwise", world.knows(number, at=NOTHING)
            return
        if self.policy not in (SKIP, BUFFER_ONE):
            wrong = f"a run is skipped under {self.policy}"
        else:
            wrong = "" if run.excused >= self._needed else "a run is skipped for nothing"
        after = world.stored(number, state=SKIPPED).knows(number, at=NOTHING)
        yield "is skipped", self._ended(after, number, run.life)._replace(wrong=wrong)

    def _giving_way(self, world: World, number: int, run: Run) -> Iterator[tuple[str, World]]:
        if not run.open:
            yield "has ended otherwise", world.knows(number, at=NOTHING)
            return
        wrong = "" if run.excused else "a run is cancelled for nothing"
        after = world.stored(number, state=CANCELLED).knows(number, at=NOTHING)
        yield "gives way", self._ended(after, number, run.life)._replace(wrong=wrong)


def _excused(world: World) -> World:
    """Note for each run that is due how many others are before it."""
    for number, run in enumerate(world.runs):
        if run.due and run.open and run.excused < 2:
            others = sum(
                (one.open or one.state == CARRIED)
                and (other < number or one.started or one.flight or world.known[other].at in BUSY)
                for other, one in enumerate(world.runs)
                if other != number
            )
            if others > run.excused:
                world = world.stored(number, excused=min(others, 2))
    return world


def _with(values: tuple[Any, ...], position: int, value: object) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position + 1 :])


if __name__ == "__main__":
    import sys

    policy, faults, *plants = sys.argv[1:]
    print(Model(policy, faults.split(","), plants, runs=3 if policy == BUFFER_ONE else 2).walk())
