"""Records a step's storage operations when they take effect, and replays their answers to the machine later."""

from typing import Any

from tests.simulation.explorer.store import Store


class Recorder:
    """A store that does what is requested and records the answers."""

    def __init__(self, store: Store, *, lose: bool) -> None:
        store.schedules.lose = lose
        self._store = store
        self.answers: list[Any] = []

    def __getattr__(self, method: str) -> Any:
        target = self._store.balances if method == "write" else self._store.schedules

        async def record(*arguments: Any, **named: Any) -> Any:
            answer = await getattr(target, method)(*arguments, **named)
            self.answers.append(answer)
            return answer

        return record


class Player:
    """A store that replays recorded answers."""

    def __init__(self, answers: tuple[Any, ...]) -> None:
        self._answers = list(answers)

    def __getattr__(self, method: str) -> Any:
        async def play(*arguments: Any, **named: Any) -> Any:
            return self._answers.pop(0)

        return play
