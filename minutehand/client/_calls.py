"""The API's operations as values: what to send, and how to read the answer. Both kinds of client perform these."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from minutehand.client._errors import MinutehandUnreachable, error_of
from minutehand.client._models import (
    AdminKey,
    Batch,
    Callback,
    CallbackUpdate,
    Client,
    Cluster,
    Cron,
    CronPreview,
    CronRun,
    DrainingNode,
    Health,
    Key,
    LocalTime,
    MinuteBalance,
    NewAdminKey,
    NewCron,
    NewKey,
    NewSchedule,
    NewSigningSecret,
    Page,
    Poller,
    PublicKey,
    Schedule,
    SentCallback,
    SigningSecret,
)
from minutehand.client._once import Creating
from minutehand.client._outcomes import (
    Acknowledged,
    Attempt,
    AuditEntry,
    BackfillItem,
    CancelItem,
    CronChange,
    DeadLetter,
    Exchange,
    LetterFilters,
    LetterSelection,
    Redriven,
)

T = TypeVar("T")
JSON: Final = "application/json"
DEFAULT_TIMEOUT_SECONDS: Final = 15.0
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}
_encode = msgspec.json.Encoder().encode
_IDEMPOTENT: Final = ("GET", "PUT", "DELETE")
TRIAL_CALL_TIMEOUT_SECONDS: Final = 75.0
"""For a trial call: more than the largest time-out that a client may have."""


class Operation(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """One request. `also`: statuses from 400 up that are answers, not errors. `timeout_seconds` None: the connection's.
    `keyed`: sent under an idempotency key, the given one or a generated one; `creating`: a token may take the place of
    a generated one. `probe`: the answer must be of now, so it is never repeated. `recognised`: the API
    recognises a repeat without a key."""

    method: str
    path: str
    answer: Any
    query: Mapping[str, str | Sequence[str]] = {}
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    also: tuple[int, ...] = ()
    timeout_seconds: float | None = None
    keyed: bool = False
    idempotency_key: str | None = None
    creating: Creating | None = None
    probe: bool = False
    recognised: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return (self.keyed or self.recognised or self.method in _IDEMPOTENT) and not self.probe

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> T:
        """The answer as a value. Raises MinutehandApiError, MinutehandUnreachable."""
        if status >= 300 and status not in self.also:
            raise error_of(status, headers.get("content-type", ""), body, headers.get("retry-after"))
        if self.answer is None:
            return None  # type: ignore[return-value]
        try:
            value: T = _decoder(self.answer).decode(body)
        except msgspec.DecodeError as error:
            raise MinutehandUnreachable(f"the answer can't be read ({error}): is the address right?") from error
        if isinstance(value, Schedule) and (tag := headers.get("etag")) is not None:
            return msgspec.structs.replace(value, etag=tag.strip('"'))
        return value


@cache
def _decoder(answer: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(answer)


def address_of(url: str) -> str:
    """Raises ValueError for what can't be an API's address."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is no address of an API: it begins with http:// or https://")
    return url


def headers_for(key: str) -> dict[str, str]:
    """The headers of every request. Raises ValueError for what can't be a key."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "this is no key: keys are printable ASCII without spaces or line breaks; was it copied completely?"
        )
    return {"Authorization": f"Bearer {key}", "Content-Type": JSON, "Accept": JSON}


def health() -> Operation[Health]:
    return Operation(method="GET", path="/readyz", answer=Health, also=(503,), probe=True)


def get_cluster() -> Operation[Cluster]:
    return Operation(method="GET", path="/v1/cluster", answer=Cluster)


def drain_node(node_id: str, *, force: bool) -> Operation[DrainingNode]:
    path = f"/v1/cluster/nodes/{segment(node_id)}:drain"
    return Operation(method="POST", path=path, answer=DrainingNode, query={"force": "true"} if force else {})


def undrain_node(node_id: str) -> Operation[DrainingNode]:
    return Operation(method="POST", path=f"/v1/cluster/nodes/{segment(node_id)}:undrain", answer=DrainingNode)


def list_audit_log(
    client_id: str | None, *, start: datetime | str | None, end: datetime | str | None, page_size: int | None
) -> Operation[Page[AuditEntry]]:
    query = given({"from": instant(start), "to": instant(end), "limit": number(page_size)})
    path = "/v1/audit-log" if client_id is None else f"{client_path(client_id)}/audit-log"
    return Operation(method="GET", path=path, answer=Page[AuditEntry], query=query)


def register_client(
    client_id: str, poller_quota: int, settings: Mapping[str, Any] | None, *, revision: int | None, absent: bool
) -> Operation[Client]:
    body: dict[str, Any] = {"poller_quota": poller_quota}
    if settings is not None:
        body["settings"] = settings
    headers = precondition(revision, absent=absent)
    return Operation(method="PUT", path=client_path(client_id), answer=Client, body=_encode(body), headers=headers)


def get_client(client_id: str) -> Operation[Client]:
    return Operation(method="GET", path=client_path(client_id), answer=Client)


def list_clients() -> Operation[Page[Client]]:
    return Operation(method="GET", path="/v1/clients", answer=Page[Client])


def suspend_client(client_id: str, *, revision: int | None) -> Operation[Client]:
    return at_revision(f"{client_path(client_id)}:suspend", Client, revision)


def resume_client(client_id: str, *, revision: int | None) -> Operation[Client]:
    return at_revision(f"{client_path(client_id)}:resume", Client, revision)


def pause_client(client_id: str, *, revision: int | None) -> Operation[Client]:
    return at_revision(f"{client_path(client_id)}:pause", Client, revision)


def unpause_client(client_id: str, *, revision: int | None) -> Operation[Client]:
    return at_revision(f"{client_path(client_id)}:unpause", Client, revision)


def change_settings(client_id: str, settings: Mapping[str, Any], *, revision: int | None) -> Operation[Client]:
    path, headers = f"{client_path(client_id)}/settings", precondition(revision)
    return Operation(method="PATCH", path=path, answer=Client, body=_encode(settings), headers=headers)


def delete_client(client_id: str, *, revision: int | None) -> Operation[None]:
    return Operation(method="DELETE", path=client_path(client_id), answer=None, headers=precondition(revision))


def create_admin_key(name: str) -> Operation[NewAdminKey]:
    return Operation(method="POST", path="/v1/admin-keys", answer=NewAdminKey, body=_encode({"name": name}))


def list_admin_keys() -> Operation[Page[AdminKey]]:
    return Operation(method="GET", path="/v1/admin-keys", answer=Page[AdminKey])


def revoke_admin_key(key_id: str) -> Operation[None]:
    return Operation(method="DELETE", path=f"/v1/admin-keys/{segment(key_id)}", answer=None)


def list_pollers(client_id: str) -> Operation[Page[Poller]]:
    return Operation(method="GET", path=f"{client_path(client_id)}/pollers", answer=Page[Poller])


def create_key(
    client_id: str, *, scope: str | None, name: str | None, expires_at: datetime | str | None
) -> Operation[NewKey]:
    asked = given({"scope": scope, "name": name, "expires_at": instant(expires_at)})
    return Operation(method="POST", path=f"{client_path(client_id)}/keys", answer=NewKey, body=_encode(asked))


def list_keys(client_id: str) -> Operation[Page[Key]]:
    return Operation(method="GET", path=f"{client_path(client_id)}/keys", answer=Page[Key])


def revoke_key(client_id: str, key_id: str) -> Operation[None]:
    return Operation(method="DELETE", path=f"{client_path(client_id)}/keys/{segment(key_id)}", answer=None)


def create_secret(client_id: str, *, scheme: str | None) -> Operation[NewSigningSecret]:
    path, body = f"{client_path(client_id)}/signing-secrets", _encode(given({"scheme": scheme}))
    return Operation(method="POST", path=path, answer=NewSigningSecret, body=body)


def list_secrets(client_id: str) -> Operation[Page[SigningSecret]]:
    return Operation(method="GET", path=f"{client_path(client_id)}/signing-secrets", answer=Page[SigningSecret])


def delete_secret(client_id: str, secret_id: str) -> Operation[None]:
    path = f"{client_path(client_id)}/signing-secrets/{segment(secret_id)}"
    return Operation(method="DELETE", path=path, answer=None)


def list_public_keys(client_id: str) -> Operation[Page[PublicKey]]:
    return Operation(method="GET", path=f"/v1/public-keys/{segment(client_id)}", answer=Page[PublicKey])


def create_schedule(client_id: str, schedule: NewSchedule, *, key: str | None) -> Operation[Schedule]:
    return keyed(
        _schedules(client_id), Schedule, key=key, body=_encode(schedule), creating=Creating(client_id, schedule)
    )


def put_schedule(
    client_id: str, own_key: str, schedule: NewSchedule, *, if_match: str | None, absent: bool, key: str | None
) -> Operation[Schedule]:
    path, creating = _by_key(client_id, own_key), Creating(client_id, schedule)
    headers = precondition(if_match, absent=absent)
    return keyed(path, Schedule, key=key, body=_encode(schedule), creating=creating, method="PUT", headers=headers)


def get_schedule_by_key(client_id: str, own_key: str) -> Operation[Schedule]:
    return Operation(method="GET", path=_by_key(client_id, own_key), answer=Schedule)


def cancel_schedule_by_key(client_id: str, own_key: str, *, if_match: str | None) -> Operation[Schedule]:
    headers = precondition(if_match)
    return Operation(method="DELETE", path=_by_key(client_id, own_key), answer=Schedule, headers=headers)


def _by_key(client_id: str, own_key: str) -> str:
    return f"{_schedules(client_id)}/by-key/{segment(own_key)}"


def precondition(tag: object, *, absent: bool = False) -> dict[str, str]:
    """The headers of a change that is made of what was seen only: under an entity tag, or where there was none."""
    headers = {} if tag is None else {"If-Match": f'"{tag}"'}
    return {**headers, "If-None-Match": "*"} if absent else headers


def create_batch(client_id: str, schedules: Sequence[NewSchedule], *, key: str | None) -> Operation[Batch]:
    return create_encoded(client_id, [encoded(schedule) for schedule in schedules], key=key)


def encoded(schedule: NewSchedule) -> bytes:
    """An item of a batch as JSON."""
    return _encode(schedule)


def create_encoded(client_id: str, items: Sequence[bytes], *, key: str | None = None) -> Operation[Batch]:
    """A batch of items that are already JSON."""
    body = b'{"items":[%b]}' % b",".join(items)
    return keyed(f"{_schedules(client_id)}:batch", Batch, key=key, body=body, creating=Creating(client_id))


def get_schedule(client_id: str, schedule_id: str) -> Operation[Schedule]:
    return Operation(method="GET", path=f"{_schedules(client_id)}/{segment(schedule_id)}", answer=Schedule)


def cancel_schedule(client_id: str, schedule_id: str, *, if_match: str | None) -> Operation[Schedule]:
    path, headers = f"{_schedules(client_id)}/{segment(schedule_id)}", precondition(if_match)
    return Operation(method="DELETE", path=path, answer=Schedule, headers=headers)


def list_schedules(
    client_id: str,
    *,
    start: datetime | str | None,
    end: datetime | str | None,
    filters: Mapping[str, Any],
    page_size: int | None,
) -> Operation[Page[Schedule]]:
    query = given({"from": instant(start), "to": instant(end), **filters, "limit": number(page_size)})
    return Operation(method="GET", path=_schedules(client_id), answer=Page[Schedule], query=query)


def list_balance(
    client_id: str, *, start: datetime | str | None, end: datetime | str | None, page_size: int | None
) -> Operation[Page[MinuteBalance]]:
    query = given({"from": instant(start), "to": instant(end), "limit": number(page_size)})
    return Operation(method="GET", path=f"{client_path(client_id)}/balance", answer=Page[MinuteBalance], query=query)


def reschedule_schedule(
    client_id: str,
    schedule_id: str,
    *,
    due: datetime | str | LocalTime | None,
    delay_seconds: float | None,
    callback: Callback | None,
    if_match: str | None,
    key: str | None,
) -> Operation[Schedule]:
    path = f"{_schedules(client_id)}/{segment(schedule_id)}:reschedule"
    body = _encode(_change(due, delay_seconds, callback))
    return keyed(path, Schedule, key=key, body=body, headers=precondition(if_match))


def update_schedule(
    client_id: str,
    schedule_id: str,
    *,
    due: datetime | str | LocalTime | None,
    delay_seconds: float | None,
    callback: CallbackUpdate | None,
    changes: Mapping[str, Any],
    if_match: str | None,
    key: str | None,
) -> Operation[Schedule]:
    path = f"{_schedules(client_id)}/{segment(schedule_id)}"
    body = _encode(_change(due, delay_seconds, callback) | dict(changes))
    return keyed(path, Schedule, key=key, body=body, method="PATCH", headers=precondition(if_match))


def _change(
    due: datetime | str | LocalTime | None, delay_seconds: float | None, callback: Callback | CallbackUpdate | None
) -> dict[str, Any]:
    """What is given of another instant and another call."""
    when = due if isinstance(due, LocalTime) else instant(due)
    asked = {"due": when, "delay_seconds": delay_seconds, "callback": callback}
    return {name: value for name, value in asked.items() if value is not None}


def run_schedule(client_id: str, schedule_id: str, *, if_match: str | None, key: str | None) -> Operation[Schedule]:
    path = f"{_schedules(client_id)}/{segment(schedule_id)}:run"
    return keyed(path, Schedule, key=key, headers=precondition(if_match))


def preview_schedule(client_id: str, schedule_id: str) -> Operation[SentCallback]:
    path = f"{_schedules(client_id)}/{segment(schedule_id)}:preview"
    return Operation(method="POST", path=path, answer=SentCallback)


def redeliver_schedule(client_id: str, schedule_id: str, *, key: str | None) -> Operation[Schedule]:
    return keyed(f"{_schedules(client_id)}/{segment(schedule_id)}:redeliver", Schedule, key=key)


def cancel_schedules(client_id: str, schedule_ids: Sequence[str]) -> Operation[Page[CancelItem]]:
    body = _encode({"schedule_ids": schedule_ids})
    return Operation(method="POST", path=f"{_schedules(client_id)}:cancel", answer=Page[CancelItem], body=body)


def list_attempts(client_id: str, schedule_id: str) -> Operation[Page[Attempt]]:
    path = f"{_schedules(client_id)}/{segment(schedule_id)}/attempts"
    return Operation(method="GET", path=path, answer=Page[Attempt])


def list_dead_letters(
    client_id: str, filters: LetterFilters, *, acknowledged: str | None, page_size: int | None
) -> Operation[Page[DeadLetter]]:
    query = given({**_letter_filters(filters), "acknowledged": acknowledged, "limit": number(page_size)})
    return Operation(method="GET", path=_letters(client_id), answer=Page[DeadLetter], query=query)


def redeliver_dead_letters(client_id: str, selection: LetterSelection) -> Operation[Redriven]:
    return Operation(
        method="POST", path=f"{_letters(client_id)}:redeliver", answer=Redriven, body=_selection(selection)
    )


def acknowledge_dead_letters(client_id: str, selection: LetterSelection) -> Operation[Acknowledged]:
    return Operation(
        method="POST", path=f"{_letters(client_id)}:acknowledge", answer=Acknowledged, body=_selection(selection)
    )


def _letter_filters(filters: LetterFilters) -> dict[str, str | None]:
    status = filters.get("status")
    return {
        "from": instant(filters.get("start")),
        "to": instant(filters.get("end")),
        "host": filters.get("host"),
        "destination": filters.get("destination"),
        "status": None if status is None else str(status),
        "reason": filters.get("reason"),
        "error": filters.get("error"),
        "label": filters.get("label"),
    }


def _selection(selection: LetterSelection) -> bytes:
    ids = selection.get("letter_ids")
    asked = {
        **_letter_filters(selection),
        "letter_ids": None if ids is None else list(ids),
        "limit": selection.get("limit"),
        "cursor": selection.get("cursor"),
    }
    return _encode({name: value for name, value in asked.items() if value is not None})


def trial_call(client_id: str, callback: Callback, *, timeout_seconds: float | None) -> Operation[Exchange]:
    asked: dict[str, Any] = {"callback": callback}
    if timeout_seconds is not None:
        asked["timeout_seconds"] = timeout_seconds
    return Operation(
        method="POST",
        path=f"{client_path(client_id)}/callbacks:try",
        answer=Exchange,
        body=_encode(asked),
        timeout_seconds=TRIAL_CALL_TIMEOUT_SECONDS,
    )


def put_cron(client_id: str, cron_id: str, cron: NewCron, *, revision: int | None, absent: bool) -> Operation[Cron]:
    body, headers = _encode(cron), precondition(revision, absent=absent)
    return Operation(method="PUT", path=_cron(client_id, cron_id), answer=Cron, body=body, headers=headers)


def get_cron(client_id: str, cron_id: str) -> Operation[Cron]:
    return Operation(method="GET", path=_cron(client_id, cron_id), answer=Cron)


def delete_cron(client_id: str, cron_id: str, *, revision: int | None) -> Operation[Cron]:
    return Operation(method="DELETE", path=_cron(client_id, cron_id), answer=Cron, headers=precondition(revision))


def pause_cron(client_id: str, cron_id: str, *, note: str | None, revision: int | None) -> Operation[Cron]:
    path, body = f"{_cron(client_id, cron_id)}:pause", None if note is None else _encode({"note": note})
    return Operation(method="POST", path=path, answer=Cron, body=body, headers=precondition(revision))


def change_crons(
    client_id: str, verb: str, *, label: str, note: str | None, dry_run: bool, cursor: str | None = None
) -> Operation[Page[CronChange]]:
    """Pause or resume crons of a label; without the cursor the first page."""
    asked = {"label": label, "note": note, "dry_run": dry_run or None, "cursor": cursor}
    body = _encode({name: value for name, value in asked.items() if value is not None})
    return Operation(method="POST", path=f"{client_path(client_id)}/crons:{verb}", answer=Page[CronChange], body=body)


def resume_cron(client_id: str, cron_id: str, *, revision: int | None) -> Operation[Cron]:
    return at_revision(f"{_cron(client_id, cron_id)}:resume", Cron, revision)


def backfill_cron(
    client_id: str,
    cron_id: str,
    *,
    start: datetime | str,
    end: datetime | str | None,
    dry_run: bool,
    cursor: str | None = None,
) -> Operation[Page[BackfillItem]]:
    """Without the cursor the first page."""
    asked = {"from": instant(start), "to": instant(end), "dry_run": dry_run or None, "cursor": cursor}
    body = _encode({name: value for name, value in asked.items() if value is not None})
    return Operation(method="POST", path=f"{_cron(client_id, cron_id)}:backfill", answer=Page[BackfillItem], body=body)


def trigger_cron(client_id: str, cron_id: str, *, key: str | None) -> Operation[Schedule]:
    return keyed(f"{_cron(client_id, cron_id)}:trigger", Schedule, key=key)


def list_crons(client_id: str, *, page_size: int | None) -> Operation[Page[Cron]]:
    query = given({"limit": number(page_size)})
    return Operation(method="GET", path=f"{client_path(client_id)}/crons", answer=Page[Cron], query=query)


def list_runs(
    client_id: str,
    cron_id: str,
    *,
    start: datetime | str | None,
    end: datetime | str | None,
    order: str | None,
    page_size: int | None,
) -> Operation[Page[CronRun]]:
    query = given({"from": instant(start), "to": instant(end), "order": order, "limit": number(page_size)})
    return Operation(method="GET", path=f"{_cron(client_id, cron_id)}/runs", answer=Page[CronRun], query=query)


def preview_cron(
    expression: str, timezone: str, start: datetime | str | None, count: int | None, rule: Mapping[str, object]
) -> Operation[CronPreview]:
    """`rule`: the other fields that say when it fires; None: not given."""
    optional = {**rule, "from": instant(start), "count": count}
    chosen = {name: value for name, value in optional.items() if value is not None}
    body = _encode({"expression": expression, "timezone": timezone, **chosen})
    return Operation(method="POST", path="/v1/crons:preview", answer=CronPreview, body=body)


def following(operation: Operation[Page[T]], page: Page[T]) -> Operation[Page[T]] | None:
    """The request for the page after `page`; None when there is none."""
    if page.next_cursor is None:
        return None
    # The cursor carries the window and the filters.
    query = {name: value for name, value in operation.query.items() if name == "limit"}
    return Operation(
        method="GET", path=operation.path, answer=operation.answer, query={**query, "cursor": page.next_cursor}
    )


def at_revision(path: str, answer: Any, revision: int | None) -> Operation[Any]:
    """A verb without a body, only if what it changes still has this revision; None: whatever it has."""
    return Operation(method="POST", path=path, answer=answer, headers=precondition(revision))


def keyed(
    path: str,
    answer: Any,
    *,
    key: str | None,
    body: bytes | None = None,
    creating: Creating | None = None,
    method: str = "POST",
    headers: Mapping[str, str] = {},
) -> Operation[Any]:
    """A request under an idempotency key; None: a generated one, or a token for what it creates."""
    return Operation(
        method=method,
        path=path,
        answer=answer,
        headers=headers,
        body=body,
        keyed=True,
        idempotency_key=key,
        creating=creating,
    )


def client_path(client_id: str) -> str:
    return f"/v1/clients/{segment(client_id)}"


def _schedules(client_id: str) -> str:
    return f"{client_path(client_id)}/schedules"


def _letters(client_id: str) -> str:
    return f"{client_path(client_id)}/dead-letters"


def _cron(client_id: str, cron_id: str) -> str:
    return f"{client_path(client_id)}/crons/{segment(cron_id)}"


def given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def number(value: int | None) -> str | None:
    return None if value is None else str(value)


def segment(text: str) -> str:
    if not text:
        raise ValueError("an id or name can't be empty: is a variable not set?")
    return escaped(text)


def escaped(text: str) -> str:
    """A name as one step of a path. `.` and `..` are escaped, too: libraries and proxies resolve them, and a request
    about such a key would reach what is above it."""
    return _DOTS.get(text) or quote(text, safe="$")


def instant(value: datetime | str | None) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("an instant has no time zone: use datetime.now(UTC), or write its offset")
        return value.isoformat()
    return value
