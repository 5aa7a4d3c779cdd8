"""Collects the faults of all fields, so that a text is put right at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from scheduler_service.domain.crons.fields import Field
from scheduler_service.domain.errors import InvalidRule

T = TypeVar("T")


def all_of(read: Callable[[Field, str], T], fields: Iterable[Field], texts: Iterable[str]) -> list[T]:
    """`read` of each field and its text. Raises one InvalidRule with the faults of all."""
    found: list[T] = []
    faults: list[str] = []
    for field, text in zip(fields, texts, strict=True):
        try:
            found.append(read(field, text))
        except InvalidRule as error:
            faults.append(error.reason)
    if faults:
        raise InvalidRule("expression", "; ".join(faults))
    return found
