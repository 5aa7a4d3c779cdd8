"""Filters: which schedules of a window a request means. Pure.

A schedule is judged as it is when it is read; a later update does not change that.

Every kind of filter that is given must hold; of the labels and states, one of those given must be the schedule's.
Labels, states and crons are columns of lean rows. Destination, host and own key are in a schedule's content, which may
be long: a caller that filters by these reads the content only of rows that the other filters admit.
"""

import re
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from scheduler_service.domain.destinations import DESTINATION_PATTERN, names_destination, read_named_url
from scheduler_service.domain.ids import CronId
from scheduler_service.domain.network import Refusal, literal_address
from scheduler_service.domain.options import Undecodable, decode_options
from scheduler_service.domain.schedule_keys import KEY_PATTERN, MAX_SCHEDULE_KEY
from scheduler_service.domain.schedules import Content, State

MAX_LABELS: Final = 20
MAX_LABEL_BYTES: Final = 1_024
"""Of all labels of one filter together, in UTF-8: a cursor contains them."""
MAX_HOST: Final = 255

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(\[[^\]]*\]|[^/?#:]*)")
_is_name = re.compile(DESTINATION_PATTERN.strip("^$")).fullmatch
_is_key_prefix = re.compile(KEY_PATTERN.strip("^$")).fullmatch
_KEY_MARK = '"key":'


class Filtered(Protocol):
    """What filters need of a row beside its content. `shown_state`: its state as callers know it."""

    @property
    def shown_state(self) -> State: ...
    @property
    def label(self) -> str | None: ...
    @property
    def cron_id(self) -> CronId | None: ...


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`labels`, `states`: any of these; empty: any at all. `destination`: the name of the one that the callback names.
    `host`: that of the callback's URL, without port, in lower case. `key_prefix`: how its own key begins."""

    labels: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    cron_id: CronId | None = None
    destination: str | None = None
    host: str | None = None
    key_prefix: str | None = None

    @property
    def reads_content(self) -> bool:
        """Whether lean rows don't suffice."""
        return self.destination is not None or self.host is not None or self.key_prefix is not None

    def admits(self, row: Filtered) -> bool:
        """Whether a row, which may be lean, matches what is no content."""
        return (
            (not self.states or row.shown_state in self.states)
            and (not self.labels or row.label in self.labels)
            and (self.cron_id is None or row.cron_id == self.cron_id)
        )

    def admits_content(self, content: Content) -> bool:
        """Whether a row that is admitted otherwise matches by its content, too."""
        return (
            (self.destination is None or destination_of(content.url) == self.destination)
            and (self.host is None or host_of(content.url) == self.host)
            and (self.key_prefix is None or _has_key(content.options, self.key_prefix))
        )


EVERY: Final = ScheduleFilter()


def destination_of(url: str | None) -> str | None:
    """The destination that a row's URL names; None: the URL is a receiver's own."""
    named = read_named_url(url or "")
    return None if named is None else named.name


def host_of(url: str | None) -> str | None:
    """The host of a row's URL in lower case, without port; None: it has none of its own."""
    found = _HOST.match(url or "")
    return None if found is None or names_destination(url) else found[1].lower() or None


def read_destination(text: str) -> str:
    """Raises ValueError."""
    if not _is_name(text):
        raise ValueError("must be a destination's name: 1 to 63 of a-z, 0-9, dot, dash and underscore")
    return text


def read_host(text: str) -> str:
    """Raises ValueError."""
    if len(text) > MAX_HOST or isinstance(literal_address(text), Refusal):
        raise ValueError("must be a host as in a URL, a name or an address, without port")
    return text.lower()


def read_key_prefix(text: str) -> str:
    """Raises ValueError."""
    if not _is_key_prefix(text):
        raise ValueError(f"must be 1 to {MAX_SCHEDULE_KEY} visible ASCII characters without spaces")
    return text


def read_labels(texts: Iterable[str]) -> tuple[str, ...]:
    """In order, each once. Raises ValueError."""
    labels = tuple(sorted(set(texts)))
    if len(labels) > MAX_LABELS:
        raise ValueError(f"may be given {MAX_LABELS} times at most")
    if sum(len(label.encode()) for label in labels) > MAX_LABEL_BYTES:
        raise ValueError(f"must have at most {MAX_LABEL_BYTES} bytes in UTF-8, all of them together")
    return labels


def _has_key(options: str | None, prefix: str) -> bool:
    """Options that can't be decoded have no key, as where schedules are shown."""
    if options is None or _KEY_MARK not in options:
        return False
    try:
        key = decode_options(options).key
    except Undecodable:
        return False
    return key is not None and key.name.startswith(prefix)
