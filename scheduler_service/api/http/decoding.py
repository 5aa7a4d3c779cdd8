"""JSON bodies into structs, with every fault named at once.

msgspec decodes and validates in one pass and stops at the first fault. Valid bodies of up to LARGE bytes are decoded
that way alone. Invalid ones, and all longer ones, are read piece by piece (`api.pieces`), which finds all faults and
checks bounds first. The semantic rules of the use case then judge the struct, with stand-ins for the fields that are
known to be wrong, and both lists are answered together, up to `most` faults.

Refusing a body costs about what accepting one of the same size does: at most some 50 ms of CPU for 4 MiB.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from scheduler_service.api.pieces import LARGE, Pieces, token
from scheduler_service.api.problems import MAX_FAULTS, Refusal
from scheduler_service.domain.errors import FieldError, Invalid

__all__ = ["Body", "Rules", "token"]

T = TypeVar("T", bound=msgspec.Struct)
Rules = Callable[[T], Sequence[FieldError]]
"""The semantic rules of a struct: answers every fault of a well-formed one."""
_TWICE: Final = "a field is given more than once, at least once with a wrong value"


class Body(Generic[T]):
    """Decodes the bodies of one type. Make one per type: building its decoders is expensive."""

    def __init__(self, type_: type[T]) -> None:
        self.type = type_
        self._decode = msgspec.json.Decoder(type_).decode
        self._decode_list: Callable[[bytes], list[T]] = msgspec.json.Decoder(list[type_]).decode  # type: ignore[valid-type]

    def decode(self, data: bytes, rules: Rules[T] | None = None, *, most: int = MAX_FAULTS) -> T:
        """Raises Refusal (malformed) and Invalid, with `most` faults at most. `rules` judge only a body that is already
        known to be wrong: a valid one is judged by its use case. Where a body longer than LARGE repeats a field, the
        last value counts."""
        value = self.decode_if_right(data)
        if value is not None:
            return value
        try:
            return self._read(data, rules, most)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _malformed(data, error) from None

    def decode_if_right(self, data: bytes) -> T | None:
        """None for JSON that does not match the type, or is longer than LARGE. Raises Refusal (malformed)."""
        if not data.isascii():
            _check_utf8(data)
        if len(data) > LARGE:
            return None
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, RecursionError) as error:
            raise _malformed(data, error) from None

    def decode_together(self, parts: Sequence[msgspec.Raw]) -> list[T] | None:
        """Decodes parts of a body, known to be UTF-8, as one array: cheaper than one by one. None where one of them is
        invalid, or their total is longer than LARGE."""
        if sum(map(len, parts)) > LARGE:
            return None
        try:
            return self._decode_list(b"[%b]" % b",".join(parts))
        except (msgspec.DecodeError, RecursionError):
            return None

    def _read(self, data: bytes, rules: Rules[T] | None, most: int) -> T:
        pieces = Pieces(most)
        value = pieces.value(data, self.type, "")
        faults = pieces.faults
        if not faults and len(data) > LARGE:
            assert isinstance(value, self.type)
            return value
        if rules is not None and pieces.all_read and not pieces.full and isinstance(value, self.type):
            wrong = {fault.pointer for fault in faults}
            more = (fault for fault in rules(value) if not _under(fault.pointer, wrong))
            faults.extend(islice(more, most + 1))
        if not faults:
            # msgspec saw the wrong value of a repeated field; read piece by piece, only the last one counts.
            faults.append(FieldError("", _TWICE))
        raise Invalid(faults[:most], more=len(faults) > most)


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Refusal("malformed", f"the body is not UTF-8 (byte {error.start})") from None


def _malformed(data: bytes, error: Exception) -> Refusal:
    if not data.strip():
        return Refusal("malformed", "the body is empty; send a JSON object")
    if isinstance(error, RecursionError):
        return Refusal("malformed", "the body is nested too deeply")
    return Refusal("malformed", f"the body is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}")


def _under(pointer: str, wrong: set[str]) -> bool:
    """Whether a pointer is known to be wrong, or points into a value that is."""
    while pointer:
        if pointer in wrong:
            return True
        pointer = pointer.rpartition("/")[0]
    return "" in wrong
