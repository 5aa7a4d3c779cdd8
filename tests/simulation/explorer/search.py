"""Walks through the states of a world: all of them within bounds, or at random."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.explorer.ground import Move
from tests.simulation.explorer.rules import Violation
from tests.simulation.explorer.scene import Scene
from tests.simulation.explorer.state import State
from tests.simulation.explorer.world import World

EPILOGUE_TICKS = 6


@dataclass(frozen=True)
class Explored:
    """`complete`: every state within the scene's bounds was visited. `moves`: how many were made."""

    states: int
    moves: int
    complete: bool


class Found(AssertionError):
    """A violation, with the moves that lead to it."""

    def __init__(self, reason: str, trail: Sequence[str]) -> None:
        super().__init__("\n".join([reason, *(f"   {label}" for label in trail)]))
        self.reason = reason
        self.trail = tuple(trail)


def explore(scene: Scene, *, states: int, switches: int, seed: int = 0) -> Explored:
    """Depth first over all states reachable by at most `switches` switches; stops after `states` states.

    A switch is a move of another actor while the one that moved last could go on (Musuvathi and Qadeer, "Iterative
    Context Bounding", 2007). Moves of the world, faults included, are no switches. Raises Found.
    """
    world, order = World(scene), random.Random(seed)
    places = _Places(world)
    seen: dict[tuple[int, str | None], int] = {}
    stack: list[_Frame] = [_Frame(places.of(world.beginning()), "", order, None, switches)]
    while stack:
        frame = stack[-1]
        if not frame.ahead:
            if not frame.moved and not frame.place.rests:
                _check_end(world, frame.place.state, [one.label for one in stack[1:]])
                frame.place.rests = True
            stack.pop()
            continue
        number = frame.ahead.pop()
        move = frame.place.moves[number]
        try:
            place = places.after(frame.place, number)
        except Violation as violation:
            raise Found(str(violation), [*(one.label for one in stack[1:]), move.label]) from None
        frame.moved |= not move.fault and place.key != frame.place.key
        actor, left = move.actor or frame.actor, frame.left_after(move)
        if left >= 0 and left > seen.get((place.key, actor), -1) and not _out_of_bounds(scene, place.state):
            if len(seen) >= states:
                return Explored(len(seen), places.made, complete=False)
            seen[place.key, actor] = left
            stack.append(_Frame(place, move.label, order, actor, left))
    return Explored(len(seen), places.made, complete=True)


def walk(scene: Scene, *, seed: int, faults: float = 0.15, length: int = 400) -> int:
    """One random walk from the seed, until no more moves are possible. Returns the number of moves. Raises Found."""
    world, draw = World(scene), random.Random(seed)
    state = world.beginning()
    trail: list[str] = []
    for _ in range(length):
        key = state.fingerprint()
        moves = world.moves(state)
        draw.shuffle(moves)
        moves.sort(key=lambda move: move.fault and draw.random() > faults)
        calm = True
        for move in moves:
            if move.fault and draw.random() > faults:
                continue
            child = state.copied()
            try:
                move.apply(child)
            except Violation as violation:
                raise Found(f"seed {seed}: {violation}", [*trail, move.label]) from None
            if child.fingerprint() != key:
                trail.append(move.label)
                state, calm = child, False
                break
        if calm:
            _check_end(world, state, [f"(seed {seed})", *trail])
            return len(trail)
    raise Found(f"seed {seed}: no rest after {length} moves", trail)


class _Place:
    """A state, and where its moves lead, as far as they were made. `rests`: its end was checked and holds."""

    __slots__ = ("_world", "key", "moves", "reached", "rests", "state")

    def __init__(self, world: World, state: State, key: int) -> None:
        self._world = world
        self.state, self.key = state, key
        self.moves: list[Move] = []
        self.reached: list[_Place | None] = []
        self.rests = False

    def enter(self) -> None:
        """Work out the moves."""
        if not self.reached:
            self.moves = self._world.moves(self.state)
            self.reached = [None] * len(self.moves)


class _Places:
    """Every state that was reached. A state is reached by several actors and with several numbers of switches left: its
    moves are made once.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[int, _Place] = {}
        self.made = 0

    def of(self, state: State) -> _Place:
        key = state.fingerprint()
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = _Place(self._world, state, key)
        return place

    def after(self, place: _Place, number: int) -> _Place:
        """Where a move leads. Raises Violation."""
        reached = place.reached[number]
        if reached is None:
            child = place.state.copied()
            self.made += 1
            place.moves[number].apply(child)
            reached = place.reached[number] = self.of(child)
        return reached


class _Frame:
    __slots__ = ("actor", "ahead", "busy", "label", "left", "moved", "place")

    def __init__(self, place: _Place, label: str, order: random.Random, actor: str | None, left: int) -> None:
        place.enter()
        self.place, self.label, self.actor, self.left = place, label, actor, left
        self.ahead = list(range(len(place.moves)))
        order.shuffle(self.ahead)
        self.moved = False
        self.busy = any(move.actor == actor and not move.fault for move in place.moves)

    def left_after(self, move: Move) -> int:
        switch = self.busy and move.actor is not None and move.actor != self.actor
        return self.left - switch


def _check_end(world: World, state: State, trail: Sequence[str]) -> None:
    """Only time can pass here: let it pass, without faults, until the last minute that has rows is swept too."""
    state, epilogue = state.copied(), ["(the end)"]
    try:
        for _ in range(EPILOGUE_TICKS):
            while (move := _next_change(world, state)) is not None:
                epilogue.append(move.label)
                move.apply(state)
            epilogue.append("tick")
            state.tick += 1
        world.check_rest(state)
    except Violation as violation:
        raise Found(str(violation), [*trail, *epilogue]) from None


def _next_change(world: World, state: State) -> Move | None:
    key = state.fingerprint()
    for move in world.moves(state):
        child = state.copied()
        if not move.fault:
            move.apply(child)
            if child.fingerprint() != key:
                return move
    return None


def _out_of_bounds(scene: Scene, state: State) -> bool:
    return any(
        machine._header.version is not None and machine._header.version > scene.largest_version
        for machine in state.machines.values()
    )
