"""What a caller has seen, so that its change replaces nothing else: entity tags (RFC 9110). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_service.domain.errors import PreconditionFailed

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Precondition:
    """`matches`: the tags of which the present thing must have one; `*`: it must be there. `absent`: there must be
    none."""

    matches: Sequence[str] | None = None
    absent: bool = False

    def check(self, tag: str | None, *, absent: bool | None = None) -> None:
        """`tag`: of the present thing, None if there is none. `absent`: whether it counts as none although it has a
        tag. Raises PreconditionFailed."""
        if self.absent and not (tag is None if absent is None else absent):
            raise PreconditionFailed(f'it is there, with the entity tag "{tag}"')
        if self.matches is None:
            return
        if tag is None:
            raise PreconditionFailed("there is none")
        if ANY not in self.matches and tag not in self.matches:
            raise PreconditionFailed(f'it has changed: its entity tag is "{tag}"')


NO_PRECONDITION: Final = Precondition()
