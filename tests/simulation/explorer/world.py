"""The moves that are possible in a state. Every decision is made by the product's own code."""

from collections.abc import Iterator

from membership.identity import PollerKey
from tests.simulation.explorer.ground import Ground, Move
from tests.simulation.explorer.owners import Owners
from tests.simulation.explorer.rules import check_rest
from tests.simulation.explorer.scene import CLIENT, FIRST_MINUTE, POLLER, Scene
from tests.simulation.explorer.state import State
from tests.simulation.explorer.store import now
from tests.simulation.explorer.tasks import Task
from tests.simulation.explorer.writers import Writers


class World:
    """The rules of one scene. `moves` returns the moves of a state; applying a move changes the state it is given."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._ground = Ground(scene)
        self._writers = Writers(self._ground)
        self._owners = Owners(self._ground, self._writers)

    def beginning(self) -> State:
        store, scene = self._ground.store, self.scene
        now(store.leases.create_pollers([PollerKey(CLIENT, POLLER)], watermark=FIRST_MINUTE))
        state = State(tables=store.save(), losses=scene.losses, writer_crashes=1 if scene.writer_crash else 0)
        self._owners.take(state, 1)
        for number in range(scene.creates):
            self._writers.begin(state, Task(f"create {number}", "create", number))
        return state

    def moves(self, state: State) -> list[Move]:
        found = [*self._owners.moves(state), *self._writers.moves(state), *self._hints(state)]
        if state.tick < self.scene.ticks:
            found.append(Move("tick", _tick))
        return found

    def check_rest(self, state: State) -> None:
        check_rest(self._ground, state)

    def _hints(self, state: State) -> Iterator[Move]:
        for hint in sorted(state.hints):

            def arrive(state: State, hint=hint) -> None:  # type: ignore[no-untyped-def]
                state.hints -= {hint}
                self._owners.hint(state, *hint)

            yield Move(f"a hint of {hint[1].due} arrives", arrive)


def _tick(state: State) -> None:
    state.tick += 1
