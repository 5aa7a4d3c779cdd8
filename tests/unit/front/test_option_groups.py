"""Options declared once: typer sees each field as an option of its own, and the command gets the object."""

import inspect
from dataclasses import dataclass

from minutehand.cli.option_groups import grouped


@dataclass(frozen=True, kw_only=True)
class Pair:
    left: int | None = None
    right: str = "r"


def test_each_field_is_a_parameter_in_the_groups_place() -> None:
    got: list[object] = []

    @grouped
    def command(name: str, *, pair: Pair, last: bool = False) -> None:
        got.append((name, pair, last))

    shown = inspect.signature(command).parameters.values()
    assert [(one.name, one.annotation) for one in shown] == [
        ("name", str),
        ("left", int | None),
        ("right", str),
        ("last", bool),
    ]
    assert [one.default for one in shown][1:] == [None, "r", False]
    command(name="n", left=3, right="x", last=True)
    assert got == [("n", Pair(left=3, right="x"), True)]
