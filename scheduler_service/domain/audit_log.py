"""Entries of the audit log: what an administrator did, a client about itself, or a node by itself.

An entry is written twice: its beginning before anything is done, its end when the answer is known.

    begun --status 2xx--> done
      |-----status 4xx--> refused: nothing was changed
      `-----status 5xx, or no status at all--> it may have been done
"""

from collections.abc import Mapping
from typing import Final, NewType
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import UnixMillis, compose_schedule_id, due_of, new_schedule_id
from scheduler_service.runtime.randomness import Randomness

EntryId = NewType("EntryId", UUID)
"""Has the form of a schedule_id of poller 0 (`domain.ids`) with the entry's instant as due, so ids sort by time."""

SYSTEM: Final = "$system"
"""The actor of what nodes do by themselves. No administrator and no client has such a name."""
_HIGHEST_TAIL = -1


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One action. `actor` is the administrator's name or, with `by_client`, the client's; `key_id` None is the key from
    configuration or, with `by_client`, no key at all: then `actor` says by which wire. `action` is the name of an
    operation of the API; `target` holds the names in its path. Where a node acts by itself, `actor` is SYSTEM, and the
    `request_id` is empty.

    The end has `status`, `problem` (its kind) and `details` (ids of what was made or changed). It never holds a secret.
    """

    entry_id: EntryId
    actor: str
    key_id: str | None
    action: str
    target: Mapping[str, str]
    request_id: str
    status: int | None = None
    problem: str | None = None
    details: Mapping[str, str | int] = {}
    by_client: bool = False

    @property
    def client_id(self) -> str | None:
        """The client that it was done to."""
        return self.target.get("client_id")

    @property
    def by_system(self) -> bool:
        return self.actor == SYSTEM

    @property
    def at(self) -> UnixMillis:
        return instant_of(self.entry_id)


def new_entry_id(at: int, *, randomness: Randomness) -> EntryId:
    return EntryId(new_schedule_id(due=at, poller_id=0, randomness=randomness))


def instant_of(entry_id: EntryId) -> UnixMillis:
    return due_of(entry_id)


def first_entry_id(at: int) -> EntryId:
    """The lowest id of an entry at this instant."""
    return EntryId(compose_schedule_id(due=at, poller_id=0, tail=0))


def last_entry_id(at: int) -> EntryId:
    """The highest id of an entry at this instant."""
    return EntryId(compose_schedule_id(due=at, poller_id=0, tail=_HIGHEST_TAIL))


def entry_id_before(entry_id: EntryId) -> EntryId:
    """The highest id below this one."""
    at = instant_of(entry_id)
    if entry_id == first_entry_id(at):
        return last_entry_id(at - 1)
    return EntryId(UUID(int=entry_id.int - 1))
