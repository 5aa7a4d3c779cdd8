"""Options that several commands take, declared once as the fields of a dataclass."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer: each parameter whose type is a dataclass becomes one parameter for each field, in its place,
    with the field's type and default."""
    groups: dict[str, type] = {}
    parameters: list[Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY))
            continue
        assert isinstance(kind, type)
        groups[name], of_field = kind, get_type_hints(kind, include_extras=True)
        parameters += [
            Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=of_field[one.name])
            for one in fields(kind)
        ]

    def run(**given: Any) -> None:
        made = {name: kind(**{one.name: given.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()}
        command(**given, **made)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(run)["__signature__"] = Signature(parameters)
    return run
