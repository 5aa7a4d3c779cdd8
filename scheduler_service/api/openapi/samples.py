"""How to send a request: as a line for a shell, and by the SDKs for Python and TypeScript. Pure.

Tests send every sample of every operation through the SDKs and compare what they send with what the curl line sends.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

Values = Mapping[str, Any]
_CALL: Final = re.compile(r"(?P<listed>list\()?(?P<target>[\w.]+)\((?P<arguments>.*?)\)+")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_WIDTH: Final = 80
"""Of a line of TypeScript that holds an object; longer ones are broken."""
_NAMES: Final = {"from": "start", "to": "end"}
_UNSAID: Final = frozenset({"wait_seconds", "once"})
"""Parameters that the SDKs give by themselves."""
_STRUCTS: Final = {"callback": "Callback", "retry": "Retry", "ack": "Ack"}

SDK: Final[Mapping[str, str]] = {
    "create_schedule": "client.schedules.create({callback}, **)",
    "get_schedule": "client.schedules.get({schedule_id})",
    "cancel_schedule": "client.schedules.cancel({schedule_id})",
    "create_batch": "client.schedules.create_batch({items})",
    "list_schedules": "list(client.schedules.list(**))",
    "count_schedules": "client.schedules.count(**)",
    "update_schedule": "client.schedules.update({schedule_id}, **)",
    "run_schedule": "client.schedules.run({schedule_id})",
    "preview_schedule": "client.schedules.preview({schedule_id})",
    "reschedule_schedule": "client.schedules.reschedule({schedule_id}, **)",
    "cancel_schedules": "client.schedules.cancel_window(**)",
    "redeliver_schedule": "client.schedules.redeliver({schedule_id})",
    "list_attempts": "client.schedules.attempts({schedule_id})",
    "explain_schedule": "client.schedules.explain({schedule_id})",
    "reschedule_schedules": "client.schedules.reschedule_window(**)",
    "put_schedule": "client.schedules.put({schedule_key}, {callback}, **)",
    "get_schedule_by_key": "client.schedules.get_by_key({schedule_key})",
    "cancel_schedule_by_key": "client.schedules.cancel_by_key({schedule_key})",
    "redeliver_dead_letters": "client.dead_letters.redeliver(**)",
    "acknowledge_dead_letters": "client.dead_letters.acknowledge(**)",
    "list_dead_letters": "list(client.dead_letters.list(**))",
    "put_cron": "client.crons.put({cron_id}, {callback}, **)",
    "get_cron": "client.crons.get({cron_id})",
    "delete_cron": "client.crons.delete({cron_id})",
    "list_crons": "list(client.crons.list(**))",
    "pause_cron": "client.crons.pause({cron_id}, **)",
    "resume_cron": "client.crons.resume({cron_id})",
    "trigger_cron": "client.crons.trigger({cron_id})",
    "list_runs": "list(client.crons.runs({cron_id}, **))",
    "preview_cron": "api.preview_cron({expression}, **)",
    "pause_crons": "client.crons.pause_all(**)",
    "resume_crons": "client.crons.resume_all(**)",
    "backfill_cron": "client.crons.backfill({cron_id}, **)",
    "put_destination": "client.destinations.put({destination}, {...})",
    "get_destination": "client.destinations.get({destination})",
    "list_destinations": "client.destinations.list()",
    "pause_destination": "client.destinations.pause({destination})",
    "resume_destination": "client.destinations.resume({destination})",
    "delete_destination": "client.destinations.delete({destination}, **)",
    "put_subscription": "client.subscriptions.put({subscription}, {...})",
    "get_subscription": "client.subscriptions.get({subscription})",
    "list_subscriptions": "client.subscriptions.list()",
    "delete_subscription": "client.subscriptions.delete({subscription})",
    "get_balance": "list(client.balance(**))",
    "trial_call": "client.trial_call({callback}, **)",
    "create_reconciliation": "client.reconciliations.create({action}, **)",
    "get_reconciliation": "client.reconciliations.get({reconciliation_id})",
    "list_reconciliations": "list(client.reconciliations.list(**))",
    "list_reconciled_schedules": "list(client.reconciliations.schedules({reconciliation_id}, **))",
    "stop_reconciliation": "client.reconciliations.stop({reconciliation_id})",
    "get_usage": "client.usage(**)",
    "list_events": "list(client.events(**, follow=False))",
    "list_audits": "list(client.audits(**))",
    "put_client": "api.clients.register({client_id}, **)",
    "list_clients": "api.clients.list()",
    "get_client": "client.get()",
    "delete_client": "api.clients.delete({client_id})",
    "suspend_client": "api.clients.suspend({client_id})",
    "resume_client": "api.clients.resume({client_id})",
    "change_settings": "client.change_settings({...})",
    "pause_client": "client.pause()",
    "unpause_client": "client.unpause()",
    "create_key": "client.keys.create(**)",
    "list_keys": "client.keys.list()",
    "revoke_key": "client.keys.revoke({key_id})",
    "create_secret": "client.signing_secrets.create(**)",
    "list_secrets": "client.signing_secrets.list()",
    "delete_secret": "client.signing_secrets.delete({secret_id})",
    "list_public_keys": "client.signing_secrets.public_keys()",
    "create_admin_key": "api.admin_keys.create({name})",
    "list_admin_keys": "api.admin_keys.list()",
    "revoke_admin_key": "api.admin_keys.revoke({key_id})",
    "list_audit_log": "list(api.audit_log(**))",
    "list_client_audit_log": "list(client.audit_log(**))",
    "get_cluster": "api.cluster()",
    "get_cluster_calls": "api.recent_calls()",
    "get_overdue_rate": "api.overdue_rate()",
    "put_overdue_rate": "api.set_overdue_rate({overdue_per_second})",
    "delete_overdue_rate": "api.remove_overdue_rate()",
    "drain_node": "api.nodes.drain({node_id}, **)",
    "undrain_node": "api.nodes.undrain({node_id})",
    "list_pollers": "client.pollers()",
    "get_forecast": "client.forecast(**)",
    "get_cluster_forecast": "api.forecast(**)",
    "get_backlog": "client.backlog()",
    "get_cluster_backlog": "api.backlog(**)",
    "list_reconciliations_under_way": "api.reconciliations_under_way(**)",
    "list_latest_audits": "api.latest_audits(**)",
    "readyz": "api.health()",
}
"""By operation: a call of the SDKs, as it is written in Python. `{name}` is a value of the path or the body, `**` all
other ones by name, `{...}` the whole body. In TypeScript the names are in camel case, those other values one object,
and what Python makes a list of is an iterator with `all()`. The other operations have none: the documents, `/livez`,
`/metrics`, and a receiver's word, which needs no key."""


class _Call(NamedTuple):
    """A call that the table names, with its values. `placed`: of each argument; `left`: by name, for `**`. `body`: for
    `{...}`."""

    listed: bool
    target: str
    arguments: Sequence[str]
    client_id: str | None
    left: Mapping[str, Any]
    placed: Mapping[str, Any]
    body: Any

    @classmethod
    def of(cls, operation: str, path: Values, query: Values, body: Any) -> Self | None:
        if (form := SDK.get(operation)) is None:
            return None
        found = _CALL.fullmatch(form)
        assert found is not None, form
        arguments = found["arguments"].split(", ") if found["arguments"] else []
        left = {name: _typed(value) for name, value in query.items() if name not in _UNSAID}
        left |= body if isinstance(body, dict) and "{...}" not in arguments else {}
        names = [argument[1:-1] for argument in arguments if argument.startswith("{") and argument != "{...}"]
        placed = {name: path[name] if name in path else left.pop(name) for name in names}
        client_id = path.get("client_id") or path.get("signer")
        return cls(found["listed"] is not None, found["target"], arguments, client_id, left, placed, body)

    def receiver(self, quoted: str) -> str:
        """The target, with the scope of its client if it has one. `quoted`: the client's id as it is written there."""
        return re.sub(r"^client\.", lambda _: f"api.client({quoted}).", self.target)


def curl_line(method: str, path: str, *, body: Any = None, key: bool = True) -> str:
    """`path`: with its query. `$API` and `$KEY` are the reader's."""
    verb = "" if method == "GET" else f" -X {method}"
    parts = [f'curl{verb} "$API{path}"']
    if key:
        parts.append('-H "Authorization: Bearer $KEY"')
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
    return " \\\n     ".join(parts)


def python_line(operation: str, *, path: Values, query: Values, body: Any = None) -> str | None:
    """A call of the SDK in Python; None: it has none for this operation. `path`: values of its variable parts."""
    if (call := _Call.of(operation, path, query, body)) is None:
        return None
    written: list[str] = []
    for argument in call.arguments:
        if argument == "**":
            named = {"page_size" if name == "limit" and name in query else name: one for name, one in call.left.items()}
            written += [f"{_NAMES.get(name, name)}={_python(name, value)}" for name, value in named.items()]
        elif argument == "{...}":
            written.append(_python("", call.body))
        elif argument.startswith("{"):
            written.append(_python(argument[1:-1], call.placed[argument[1:-1]]))
        else:
            written.append(argument)
    text = f"{call.receiver(repr(call.client_id))}({', '.join(written)})"
    return f"list({text})" if call.listed else text


def typescript_line(operation: str, *, path: Values, query: Values, body: Any = None) -> str | None:
    """A call of the SDK in TypeScript; None: it has none for this operation. `path`: values of its variable parts."""
    if (call := _Call.of(operation, path, query, body)) is None:
        return None
    written: list[str] = []
    named = dict(call.left)
    for argument in call.arguments:
        if argument == "{...}":
            written.append(_typescript(call.body))
        elif argument.startswith("{"):
            written.append(_typescript(call.placed[argument[1:-1]]))
        elif argument != "**":
            name, _, value = argument.partition("=")
            named[name] = {"False": False, "True": True}[value]
    if named:
        written.append(_typescript(named))
    target = re.sub(r"_(\w)", lambda found: found[1].upper(), call.target)
    target = call._replace(target=target).receiver(json.dumps(call.client_id))
    return f"await {target}({', '.join(written)}){'.all()' if call.listed else ''}"


def _typed(text: str | list[str]) -> Any:
    """A value of a query: a number or a truth value as such, other digits as the text that they are; of a name that is
    repeated, all of them."""
    if isinstance(text, list):
        return [_typed(one) for one in text]
    return int(text) if _NUMBER.fullmatch(text) else {"true": True, "false": False}.get(text, text)


def _python(name: str, value: Any) -> str:
    """A value as it is written for the SDK."""
    if isinstance(value, dict) and name in _STRUCTS:
        inner = ", ".join(f"{part}={_python(part, one)}" for part, one in value.items())
        return f"{_STRUCTS[name]}({inner})"
    if isinstance(value, dict) and name == "due":
        return f"LocalTime({', '.join(f'{part}={one!r}' for part, one in value.items())})"
    return repr(value)


def _typescript(value: Any, margin: str = "") -> str:
    """A JSON value as a literal, in one line where it is short. `margin`: that of the line that it is in."""
    if isinstance(value, dict) and value:
        parts = [
            (f"{name if _IDENTIFIER.fullmatch(name) else json.dumps(name, ensure_ascii=False)}: ", one)
            for name, one in value.items()
        ]
        opening, closing = "{ ", " }"
    elif isinstance(value, list) and value:
        parts, opening, closing = [("", one) for one in value], "[", "]"
    else:
        return json.dumps(value, ensure_ascii=False)
    short = opening + ", ".join(name + _typescript(one, margin) for name, one in parts) + closing
    if len(margin) + len(short) <= _WIDTH and "\n" not in short:
        return short
    inner = margin + "  "
    lines = "".join(f"{inner}{name}{_typescript(one, inner)},\n" for name, one in parts)
    return f"{opening.strip()}\n{lines}{margin}{closing.strip()}"
