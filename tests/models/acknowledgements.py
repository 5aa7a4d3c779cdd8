"""An exhaustive model of acknowledged work (`domain.acknowledgements`): one schedule is called, its receivers answer
202 and send words, while owners claim, end and carry rows, and deadlines pass.

Modelled are the original (its state, the attempt and fence that it awaits a word of, the instant that it names), the
retry rows by instant (what they are for, whether they have ended), what is claimed, and every call with its attempt and
fence. Time is the order of instants: a deadline may pass at any time.

An owner checks a retry row before it claims it, ends it, carries its end to the original and places the row that this
names; it may die between any two of these steps, and the next owner, of a higher fence, begins with what is stored.
A receiver's word is read, written on a condition, followed by its row, and answered; its process may die before each of
these, and the answer to its write may be lost. A client may cancel: that reads the original, ends the retry row that it
names, then the original, and may die between any two of these steps.

Checked in every state: the original ends once; an attempt begins only while the original awaits no word and has not
ended; a word counts only if it is of the newest attempt and fence. Checked at rest: the schedule has ended, delivered
if `done` was answered 200, and failed or tried again if `failed` was, unless it was cancelled.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.state_model import StateModel

CALL, DEADLINE, SAID_DONE, SAID_FAILED = "call", "deadline", "said done", "said failed"
RETRYING, DELIVERED, FAILED, CANCELLED = "retrying", "delivered", "failed", "cancelled"
ENDS = (DELIVERED, FAILED, CANCELLED)
DONE, FAIL, EXTEND = "done", "failed", "extend"
MOST_ATTEMPTS = 2
LAST_EXTENDED = 3
"""The last instant behind which a deadline is moved: a receiver extends as often as it likes."""
SUPERSEDED = "superseded"


class Pointer(NamedTuple):
    """What a retrying row says: the instant that it names and what the row there is for; attempts made, and the fence
    of the last."""

    at: int
    use: str
    attempts: int
    fence: int


class Row(NamedTuple):
    """A retry row. `end`: nothing, SUPERSEDED, or what it ended with. `settled`: nothing more follows from it."""

    use: str
    attempts: int
    claimed: bool = False
    end: object = None
    settled: bool = False


GONE = Row("", 0, end="", settled=True)
"""All rows of which nothing follows any more."""


class Call(NamedTuple):
    attempt: int
    fence: int
    instant: int
    """Of its row; 0: the original."""
    answered: bool = False


class Word(NamedTuple):
    """`at`: its next step. `read`: the pointer that its process has read."""

    said: str
    attempt: int
    fence: int
    at: str = "read"
    read: Pointer | None = None
    new: Pointer | None = None


class Cancel(NamedTuple):
    """`at`: its next step. `instant`: what the original named when it was read."""

    at: str
    instant: int = 0


NOT_BEGUN = Cancel("read")
CANCEL_OVER = Cancel("over")


class World(NamedTuple):
    original: object = None
    """None: it has no outcome; a Pointer; one of ENDS."""
    claimed: bool = False
    """Whether the original is."""
    ends: int = 0
    recorded: Pointer | None = None
    """What its owner recorded: the row of it is still to be placed, or the one that the original names by then."""
    rows: tuple[tuple[int, Row], ...] = ()
    next_instant: int = 1
    fence: int = 1
    deaths: int = 1
    checked: frozenset[int] = frozenset()
    """Instants of the rows that the present owner has found to be named."""
    calls: tuple[Call, ...] = ()
    words: tuple[Word, ...] = ()
    told: frozenset[tuple[str, int, int]] = frozenset()
    cancel: Cancel = NOT_BEGUN
    wrong: str = ""

    def row(self, at: int) -> Row | None:
        return dict(self.rows).get(at)

    def with_row(self, at: int, row: Row) -> "World":
        rows = dict(self.rows)
        rows[at] = GONE if row.settled else row
        return self._replace(rows=tuple(sorted(rows.items())))

    def ended(self, state: str) -> "World":
        return self._replace(original=state, ends=self.ends + 1)


class Model(StateModel[World]):
    """`says`: the words that receivers send, of any attempt; none extends behind `LAST_EXTENDED`. `deaths`: of owners.
    `cancels`: whether the client cancels. `plants`: rules left out, by name.

    `unfenced`: a word is not compared with the fence. `untested`: a word's write does not test the instant. `blind`:
    the end of a retry row is carried whatever the original names. `unfollowed`: a rejected carry places no row.
    `silent`: nor does the end of a deadline that was found superseded. `early`: a word is answered before its write.
    `caller`: a deadline is a call, as for nodes that don't know it. `hasty`: a cancel ends what was said to be done.
    """

    def __init__(
        self, says: Iterable[str], plants: Iterable[str] = (), *, deaths: int = 1, cancels: bool = False
    ) -> None:
        self.says, self.plants = tuple(says), frozenset(plants)
        self.cancels = cancels
        self.first = World(deaths=deaths)

    def wrong(self, world: World) -> str | None:
        return world.wrong or ("two ends" if world.ends > 1 else None)

    def wrong_at_rest(self, world: World) -> str | None:
        if world.original not in ENDS:
            return "never ended"
        if any(said == DONE for said, _, _ in world.told) and world.original != DELIVERED:
            return "a word is lost"
        last = max(call[:2] for call in world.calls)
        if any(said == FAIL and (attempt, fence) == last for said, attempt, fence in world.told):
            return None if world.original in (FAILED, CANCELLED) else "a word is lost"
        return None

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._owner(world)
        yield from self._receivers(world)
        if self.cancels:
            yield from self._cancel(world)
        for position, word in enumerate(world.words):
            for name, after, now in self._word_steps(world, word):
                words = list(after.words)
                words[position] = now
                yield f"word {position} {word.said}: {name}", after._replace(words=tuple(words))

    # Owners.

    def _owner(self, world: World) -> Iterator[tuple[str, World]]:
        if world.deaths:
            left = world._replace(deaths=world.deaths - 1, fence=world.fence + 1, checked=frozenset())
            yield "the owner dies", left
        if world.original is None and not any(call[1:] == (world.fence, 0, False) for call in world.calls):
            yield "calls", self._begin(world, 0, 1)
        if world.recorded is not None:
            done = world._replace(recorded=None)
            yield "places what it recorded", self._placed(done, world.recorded)
            if isinstance(world.original, Pointer) and world.original != world.recorded:
                # The next owner reads the original as it is by then.
                yield "places what the original names", self._placed(done, world.original)
            elif world.original in ENDS:
                yield "has nothing to place", done
        for at, row in world.rows:
            if row.end is not None:
                if not row.settled:
                    yield f"follows up {at}", self._carry(world, at, row)
            elif at not in world.checked and not row.claimed:
                yield f"checks {at}", self._check(world, at, row)
            elif row.use == CALL or "caller" in self.plants:
                if not any(call[1:] == (world.fence, at, False) for call in world.calls):
                    claimed = world.with_row(at, row._replace(claimed=True))
                    yield f"calls for {at}", self._begin(claimed, at, row.attempts + 1)
            else:
                end: object = DELIVERED if row.use == SAID_DONE else self._failure(world, row.attempts)
                ended = row._replace(end=end, claimed=True)
                after = world.with_row(at, ended)
                yield f"ends {at}", after._replace(next_instant=world.next_instant + 1)

    def _check(self, world: World, at: int, row: Row) -> World:
        named = isinstance(world.original, Pointer) and world.original.at == at
        if named:
            return world._replace(checked=world.checked | {at})
        settled = row.use != DEADLINE or "silent" in self.plants
        return world.with_row(at, row._replace(end=SUPERSEDED, settled=settled))

    def _begin(self, world: World, at: int, attempt: int) -> World:
        wrong = ""
        if world.original in ENDS:
            wrong = "called after its end"
        elif isinstance(world.original, Pointer) and world.original.use in (DEADLINE, SAID_DONE):
            wrong = "called while a word is awaited"
        return world._replace(calls=(*world.calls, Call(attempt, world.fence, at)), wrong=world.wrong or wrong)

    def _failure(self, world: World, attempts: int) -> object:
        return FAILED if attempts >= MOST_ATTEMPTS else Pointer(world.next_instant, CALL, attempts, world.fence)

    def _carry(self, world: World, at: int, row: Row) -> World:
        """A retry row's end reaches its original if that still names it; then the row is placed that it names."""
        done = world.with_row(at, row._replace(settled=True))
        named = isinstance(world.original, Pointer) and world.original.at == at
        if row.end is SUPERSEDED or not (named or "blind" in self.plants):
            if row.end is not SUPERSEDED and "unfollowed" in self.plants:
                return done
            return self._placed(done, world.original) if isinstance(world.original, Pointer) else done
        if not isinstance(row.end, Pointer):
            return done.ended(str(row.end))
        # The carry and the placing may be apart: the original then names a row that is not there yet.
        return self._placed(done._replace(original=row.end), row.end)

    def _placed(self, world: World, named: Pointer) -> World:
        return world if world.row(named.at) else world.with_row(named.at, Row(named.use, named.attempts))

    # A cancel.

    def _cancel(self, world: World) -> Iterator[tuple[str, World]]:
        at, instant = world.cancel
        if at in ("row", "original"):
            yield "the cancel's process dies", world._replace(cancel=CANCEL_OVER)
        if at == "read":
            if isinstance(world.original, Pointer):
                row = world.row(world.original.at)
                refused = world.original.use == SAID_DONE and "hasty" not in self.plants
                if refused or (row is not None and row.claimed and row.end is None):
                    yield "the cancel is refused", world._replace(cancel=CANCEL_OVER)
                elif row is None or row.end is None:
                    yield "the cancel reads", world._replace(cancel=Cancel("row", world.original.at))
            elif world.original in ENDS:
                yield "the cancel comes too late", world._replace(cancel=CANCEL_OVER)
        elif at == "row":
            row = world.row(instant) or Row(CALL, 0)
            if row.claimed or row.end is not None:
                yield "the cancel reads again", world._replace(cancel=NOT_BEGUN)
            else:
                ended = world.with_row(instant, row._replace(end=CANCELLED))
                yield f"the cancel ends {instant}", ended._replace(cancel=Cancel("original", instant))
        elif at == "original":
            if isinstance(world.original, Pointer) and world.original.at == instant:
                yield "it is cancelled", world.ended(CANCELLED)._replace(cancel=CANCEL_OVER)
            else:
                yield "the cancel reads again", world._replace(cancel=NOT_BEGUN)

    # Receivers and their words.

    def _receivers(self, world: World) -> Iterator[tuple[str, World]]:
        for position, call in enumerate(world.calls):
            if not call.answered and call.fence == world.fence:
                yield f"202 to {call}", self._awaits(world, position, call)
            for said in self.says:
                if all((word.said, word.attempt, word.fence) != (said, *call[:2]) for word in world.words):
                    yield f"{call} says {said}", world._replace(words=(*world.words, Word(said, *call[:2])))

    def _awaits(self, world: World, position: int, call: Call) -> World:
        """The commit that records a 202: on the original, or on the retry row and from there to the original."""
        calls = list(world.calls)
        calls[position] = call._replace(answered=True)
        pointer = Pointer(world.next_instant, DEADLINE, call.attempt, call.fence)
        world = world._replace(calls=tuple(calls), next_instant=world.next_instant + 1)
        if call.instant == 0:
            return world._replace(original=pointer, recorded=pointer) if world.original is None else world
        row = world.row(call.instant)
        assert row is not None
        return world.with_row(call.instant, row._replace(end=pointer)) if row.end is None else world

    def _word_steps(self, world: World, word: Word) -> Iterator[tuple[str, World, Word]]:
        over = word._replace(at="over", read=None, new=None)
        if word.at in ("write", "place"):
            yield "its process dies", world, over
        if word.at == "read":
            yield from self._read(world, word, over)
        elif word.at == "write":
            assert word.read is not None
            assert word.new is not None
            applied = world.original == word.read or "untested" in self.plants
            if applied:
                if "early" in self.plants:
                    yield "the answer is lost", world, over
                newest = max(call[:2] for call in world.calls) == (word.attempt, word.fence)
                wrong = "" if newest else "a stale word counts"
                ends = world.original in ENDS
                new = word.new._replace(at=world.next_instant)
                after = world._replace(
                    original=new,
                    ends=world.ends + ends,
                    wrong=world.wrong or wrong,
                    next_instant=world.next_instant + 1,
                )
                yield "writes", after, word._replace(at="place", read=None, new=new)
                yield "writes, and the answer is lost", after, word._replace(at="read", read=None, new=None)
            else:
                yield "is rejected", world, word._replace(at="read", read=None, new=None)
        elif word.at == "place":
            after = world if word.said == EXTEND or word.new is None else self._placed(world, word.new)
            yield "places its row, and is answered", self._tell(after, word), over

    def _tell(self, world: World, word: Word) -> World:
        return world._replace(told=world.told | {(word.said, word.attempt, word.fence)})

    def _read(self, world: World, word: Word, over: Word) -> Iterator[tuple[str, World, Word]]:
        found = world.original
        if not isinstance(found, Pointer):
            # No outcome yet: the word came before the record of the 202, and comes again if anybody still waits.
            if found is not None:
                yield "is refused", world, over
            return
        if found.attempts < word.attempt:
            return
        if found.attempts != word.attempt or (found.fence != word.fence and "unfenced" not in self.plants):
            yield "is refused", world, over
            return
        if found.use == {DONE: SAID_DONE, FAIL: SAID_FAILED}.get(word.said):
            yield "was said before", world, word._replace(at="place", new=found)
            return
        if found.use != DEADLINE:
            yield "is refused", world, over
            return
        if word.said == EXTEND and world.next_instant > LAST_EXTENDED:
            yield "is refused", world, over
            return
        use = {DONE: SAID_DONE, FAIL: SAID_FAILED, EXTEND: DEADLINE}[word.said]
        after = self._tell(world, word) if "early" in self.plants else world
        yield "reads", after, word._replace(at="write", read=found, new=Pointer(0, use, found.attempts, found.fence))
