"""An exhaustive model of updates in place (`usecases.revise_schedule`): one schedule is revised, while owners claim,
defer and call it, and others requeue or reschedule it.

Modelled are the partition's header (claim_epoch, version, edits, whether the row is in flight), the row (its state, its
content and the revisions of it), what is announced to replace it, and what was called. Content is the set of the
updates in it, since each merges its own into what it has read. A retry row and a replacement are called with what they
were placed with: nobody revises them.

An owner reads the header before the row, as it reads pages; what it holds may be older than the row by then. The first
owner may die before each of its steps, and the second takes over. Every other process may die too, and the answer of
each of its conditional writes may be lost. Two reschedules are one request, repeated at any time.

Checked in every state: all calls have the same content, that of every update that was answered 200 and of none that was
refused. Checked at rest: the schedule, its retry row or its replacement was called.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.state_model import StateModel

OPEN, RETRYING, DELIVERED, CANCELLED = "", "retrying", "delivered", "cancelled"
DEAD, DONE = "dead", "done"
UPDATE, REQUEUE, RESCHEDULE = "update", "requeue", "reschedule"

Content = frozenset[int]
NOTHING: Content = frozenset()


class Row(NamedTuple):
    """`made_by`: who made each revision, in their order. `replaced_by`: the announced row that the cancelled one names,
    by the revision that it was derived from."""

    state: str = OPEN
    content: Content = NOTHING
    made_by: tuple[int, ...] = ()
    replaced_by: int | None = None


class Owner(NamedTuple):
    """`at`: its next step. `version`, `edits` and `epoch` as known; `scanned`: the edits that the scan under way began
    with. `held`: the content of the row as read, and its `revision`."""

    number: int
    at: str = "begin"
    epoch: int = 0
    version: int = 0
    edits: int = 0
    edits_known: bool = True
    scanned: int = 0
    held: Content = NOTHING
    revision: int = 0
    spent: frozenset[str] = frozenset()
    """What it does once at most: scanning again, giving back."""


class Process(NamedTuple):
    """`at`: its next step. What it has read: `version`, `revision`, `content`. `tried`: the revision that it may have
    made. `answer`: what its caller was told."""

    verb: str
    at: str = "read"
    version: int = 0
    revision: int = 0
    content: Content = NOTHING
    tried: int = 0
    answer: int = 0


class World(NamedTuple):
    owners: tuple[Owner, ...]
    processes: tuple[Process, ...]
    row: Row = Row()
    epoch: int = 0
    version: int = 0
    edits: int = 0
    flight: bool = False
    announced: tuple[tuple[int, Content], ...] = ()
    calls: frozenset[Content] = frozenset()

    def changed(self, edited: bool = True, **changes: object) -> "World":
        """After an external update."""
        row = self.row._replace(**changes)  # type: ignore[arg-type]
        return self._replace(row=row, edits=self.edits + edited)

    def called(self, content: Content) -> "World":
        return self._replace(calls=self.calls | {content})


class Model(StateModel[World]):
    """`plants`: rules left out, by name.

    `unrechecked`: rows claimed past updates are not read again but for their state. `unread`: nor are rows deferred
    past updates. `kept`: a scan keeps the content of rows that are held. `silent`: an update leaves edits. `unseen`: an
    update does not look whether the row is in flight. `unversioned`: nor tests the version. `frozenless`: it revises
    rows that are retrying too. `unmerged`: updates do not test the revision that they merge into. `requeued`: nor do
    requeues. `rescheduled`: nor do reschedules. `renamed`: a replacement has the same id whatever revision it derives
    from. `own`: a requeue places the content that was created. `blind`: the second owner does not know of revisions.
    `unrecognised`: an update that finds its own revision does not know it. `last`: it does only while that is the last.
    """

    def __init__(self, verbs: Iterable[str], plants: Iterable[str] = ()) -> None:
        self.plants = frozenset(plants)
        self.first = World((Owner(1), Owner(2, at="waits")), tuple(Process(verb) for verb in verbs))

    def wrong(self, world: World) -> str | None:
        if len(world.calls) > 1:
            return "calls differ"
        for content in world.calls:
            for number, process in enumerate(world.processes):
                if process.verb == UPDATE and process.answer == 200 and number not in content:
                    return "an update is lost"
                if process.verb == UPDATE and process.answer == 409 and number in content:
                    return "a refused update is called"
        return None

    def wrong_at_rest(self, world: World) -> str | None:
        return None if world.calls else "nothing was called"

    def following(self, world: World) -> Iterator[tuple[str, World]]:
        for position, owner in enumerate(world.owners):
            for name, after, now in self._owner_steps(world, owner):
                owners = list(after.owners)
                owners[position] = Owner(now.number, now.at) if now.at in (DEAD, DONE) else now
                yield f"owner {owner.number}: {name}", after._replace(owners=tuple(owners))
        for position, process in enumerate(world.processes):
            if process.at in (DEAD, DONE):
                continue
            for name, after, left in self._process_steps(world, process, position):
                processes = list(after.processes)
                processes[position] = Process(left.verb, DONE, answer=left.answer) if left.at == DONE else left
                yield f"{position} {process.verb}: {name}", after._replace(processes=tuple(processes))
            if process.at != "read" or process.tried:
                processes = list(world.processes)
                processes[position] = Process(process.verb, DEAD)
                yield f"{position} dies before {process.at}", world._replace(processes=tuple(processes))

    # Owners.

    def _owner_steps(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        if owner.at in (DEAD, DONE):
            return
        if owner.at == "waits":
            if world.owners[0].at in (DEAD, DONE):
                yield "takes the lease", world, owner._replace(at="begin")
            return
        if owner.number == 1:
            yield f"dies before {owner.at}", world, Owner(1, DEAD)
        yield from getattr(self, f"_owner_{owner.at}")(world, owner)

    def _seen(self, world: World, owner: Owner) -> Content:
        return NOTHING if "blind" in self.plants and owner.number == 2 else world.row.content

    def _owner_begin(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        known = Owner(owner.number, "page", world.epoch, world.version, world.edits, spent=owner.spent)
        yield "reads the header", world, known

    def _owner_page(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        row = world.row
        if row.state == OPEN:
            now = owner._replace(at="holds", held=self._seen(world, owner), revision=len(row.made_by))
            yield "reads the row", world, now
        elif row.state == RETRYING:
            yield "places the retry row", world.called(self._seen(world, owner)), owner._replace(at=DONE)
        elif row.replaced_by is not None:
            yield "creates the replacement", _created(world), owner._replace(at=DONE)
        else:
            yield "settles", world, owner._replace(at=DONE)

    def _owner_holds(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        if owner.epoch not in (0, owner.number):
            # An older owner has opened it: what was read before is read again.
            opened = world.epoch == owner.epoch
            after = world._replace(epoch=owner.number) if opened else world
            yield "opens", after, owner._replace(at="begin")
            return
        if (world.epoch, world.version) != (owner.epoch, owner.version):
            yield "rejected", world, owner._replace(at="begin")
        elif owner.edits_known and world.edits != owner.edits:
            yield "rejected for edits", world, owner._replace(edits_known=False)
        else:
            written = world._replace(epoch=owner.number, version=world.version + 1)
            now = owner._replace(epoch=owner.number, version=world.version + 1)
            yield "claims", written._replace(flight=True), now._replace(at="send" if owner.edits_known else "recheck")
            if world.row.state == OPEN and not world.flight:
                deferred = written._replace(row=world.row._replace(state=RETRYING))
                yield "defers", deferred, now._replace(at="place" if owner.edits_known else "reread")
            elif not owner.edits_known:
                yield "rejected for the row", world, owner._replace(at="begin")
        if "scan" not in owner.spent:
            yield "scans again", world, owner._replace(at="scan", scanned=world.edits, spent=owner.spent | {"scan"})

    def _owner_scan(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        if world.row.state != OPEN:
            yield "the row has an outcome", world, owner._replace(at="begin")
            return
        now = owner._replace(at="holds", edits=owner.scanned, edits_known=True)
        if "kept" not in self.plants:
            now = now._replace(held=self._seen(world, owner), revision=len(world.row.made_by))
        yield "has read all again", world, now

    def _owner_recheck(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        if world.row.state != OPEN:
            released = world._replace(flight=False, version=world.version + 1)
            yield "gives back what has an outcome", released, owner._replace(at="begin")
            return
        held = owner.held if "unrechecked" in self.plants else self._seen(world, owner)
        yield "reads the claimed again", world, owner._replace(at="send", held=held)

    def _owner_reread(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        held = owner.held if "unread" in self.plants else self._seen(world, owner)
        yield "reads the deferred again", world, owner._replace(at="place", held=held)

    def _owner_place(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        yield "places the retry row", world.called(owner.held), owner._replace(at=DONE)

    def _owner_send(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        yield "calls", world.called(owner.held), owner._replace(at="record")
        if not world.calls and "give" not in owner.spent:
            yield "gives back", world, owner._replace(at="release", spent=owner.spent | {"give"})

    def _owner_release(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        known = owner.edits_known and world.edits == owner.edits
        after = world._replace(flight=False, version=world.version + 1)
        yield "releases", after, owner._replace(at="holds", version=after.version, edits_known=known)

    def _owner_record(self, world: World, owner: Owner) -> Iterator[tuple[str, World, Owner]]:
        if world.row.state == OPEN:
            row = world.row._replace(state=DELIVERED)
            after = world._replace(row=row, flight=False, version=world.version + 1)
            yield "records", after, owner._replace(at=DONE)
        else:
            yield "its outcome is void", world, owner._replace(at="begin")

    # All others.

    def _process_steps(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        yield from getattr(self, f"_{process.verb}_{process.at}")(world, process, position)

    def _update_read(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        row = world.row
        takes = row.state == OPEN or ("frozenless" in self.plants and row.state == RETRYING)
        takes = takes and (not world.flight or "unseen" in self.plants)
        if self._recognised(row, process, position, takes=takes):
            yield "200, was made", world, process._replace(at=DONE, answer=200)
        elif not takes:
            yield "409", world, process._replace(at=DONE, answer=409)
        else:
            yield "reads", world, _having_read(process, world)._replace(at="write")

    def _recognised(self, row: Row, process: Process, position: int, *, takes: bool) -> bool:
        if "unrecognised" in self.plants:
            return False
        if row.made_by[-1:] == (position,):
            return True
        return "last" not in self.plants and not takes and position in row.made_by

    def _update_write(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        row = world.row
        same = len(row.made_by) == process.revision or "unmerged" in self.plants
        in_time = world.version == process.version or "unversioned" in self.plants
        state = row.state == OPEN or ("frozenless" in self.plants and row.state == RETRYING)
        if not (same and in_time and state):
            yield "rejected", world, process._replace(at="read")
            return
        after = world.changed(
            edited="silent" not in self.plants,
            content=process.content | {position},
            made_by=(*row.made_by, position),
        )
        yield "revises, 200", after, process._replace(at=DONE, answer=200)
        if process.tried == 0:
            yield "revises, lost", after, process._replace(at="read", tried=1)

    def _requeue_read(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        if world.row.state == RETRYING:
            yield "reads the pointer", world, _having_read(process, world)._replace(at="place")
        elif world.row.state != OPEN or world.flight:
            yield "leaves it", world, process._replace(at=DONE)
        else:
            yield "reads", world, _having_read(process, world)._replace(at="write")

    def _requeue_write(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        same = len(world.row.made_by) == process.revision or "requeued" in self.plants
        if world.row.state != OPEN or world.version != process.version or not same:
            yield "rejected", world, process._replace(at="read")
            return
        after = world.changed(state=RETRYING)
        yield "points", after, process._replace(at="place")
        if process.tried == 0:
            yield "points, lost", after, process._replace(at="read", tried=1)

    def _requeue_place(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        content = NOTHING if "own" in self.plants else process.content
        yield "places the retry row", world.called(content), process._replace(at=DONE)

    def _reschedule_read(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        row = world.row
        if row.state == CANCELLED and row.replaced_by == self._name(len(row.made_by)):
            yield "has cancelled", world, process._replace(at="create")
        elif row.state != OPEN or world.flight:
            yield "409", world, process._replace(at=DONE)
        else:
            yield "reads", world, _having_read(process, world)._replace(at="announce")

    def _name(self, revision: int) -> int:
        return 0 if "renamed" in self.plants else revision

    def _reschedule_announce(
        self, world: World, process: Process, position: int
    ) -> Iterator[tuple[str, World, Process]]:
        announced = dict(world.announced) | {self._name(process.revision): process.content}
        after = world._replace(announced=tuple(sorted(announced.items(), key=lambda one: one[0])))
        yield "announces", after, process._replace(at="write")

    def _reschedule_write(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        same = len(world.row.made_by) == process.revision or "rescheduled" in self.plants
        if world.row.state != OPEN or world.version != process.version or not same:
            yield "rejected", world, process._replace(at="read")
            return
        after = world.changed(state=CANCELLED, replaced_by=self._name(process.revision))
        yield "cancels", after, process._replace(at="create")
        if process.tried == 0:
            yield "cancels, lost", after, process._replace(at="read", tried=1)

    def _reschedule_create(self, world: World, process: Process, position: int) -> Iterator[tuple[str, World, Process]]:
        yield "creates the replacement", _created(world), process._replace(at=DONE)


def _having_read(process: Process, world: World) -> Process:
    row = world.row
    return process._replace(version=world.version, revision=len(row.made_by), content=row.content)


def _created(world: World) -> World:
    """The replacement is called as it is announced now."""
    assert world.row.replaced_by is not None
    return world.called(dict(world.announced)[world.row.replaced_by])


if __name__ == "__main__":
    import sys

    print(Model(sys.argv[1].split(","), sys.argv[2:]).walk())
