"""From the fields of forms to the JSON of requests. Pure.

A field that is left empty is left out. What can't be read stays as it was typed, so that the API says what is wrong.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?")


def given(form: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The fields of these names that are not empty, without spaces around them."""
    return {name: text for name in names if (text := form.get(name, "").strip())}


def instant_of(text: str) -> str:
    """An instant of a field that asks for UTC: browsers send it without a zone, and perhaps without seconds."""
    text = text.strip()
    if (match := _WITHOUT_ZONE.fullmatch(text)) is None:
        return text
    return text.replace(" ", "T") + ("Z" if match[1] else ":00Z")
