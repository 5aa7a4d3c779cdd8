"""How to send a request: as a line for a shell, and by the SDK. Pure.

A test sends every sample of every operation through the SDK and compares what it sends with what the curl line sends.
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

Values = Mapping[str, Any]
_PLACE: Final = re.compile(r"\{(\w+)\}")
_NAMES: Final = {"from": "start", "to": "end"}
_UNSAID: Final = frozenset({"wait_seconds", "once"})
"""Parameters that the SDK gives by itself."""
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
    "readyz": "api.health()",
}
"""By operation: a call of the SDK. `{name}` is a value of the path or the body, `**` all other ones by name, `{...}`
the whole body. The other operations have none: the documents, `/livez`, `/metrics`, and a receiver's word, which needs
no key."""


def curl_line(method: str, path: str, *, body: Any = None, key: bool = True) -> str:
    """`path`: with its query. `$API` and `$KEY` are the reader's."""
    verb = "" if method == "GET" else f" -X {method}"
    parts = [f'curl{verb} "$API{path}"']
    if key:
        parts.append('-H "Authorization: Bearer $KEY"')
    if body is not None:
        parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
    return " \\\n     ".join(parts)


def sdk_line(operation: str, *, path: Values, query: Values, body: Any = None) -> str | None:
    """A call of the SDK in Python; None: it has none for this operation. `path`: values of its variable parts."""
    form = SDK.get(operation)
    if form is None:
        return None
    left = {"page_size" if name == "limit" else name: _typed(value) for name, value in query.items()}
    left = {name: value for name, value in left.items() if name not in _UNSAID}
    left |= body if isinstance(body, dict) else {}

    def place(found: re.Match[str]) -> str:
        name = found[1]
        return _python(name, path[name] if name in path else left.pop(name))

    text = form.replace("{...}", _python("", body))
    text = _PLACE.sub(place, text)
    if (client_id := path.get("client_id") or path.get("signer")) is not None:
        text = text.replace("client.", f"api.client({client_id!r}).", 1)
    named = ", ".join(f"{_NAMES.get(name, name)}={_python(name, value)}" for name, value in left.items())
    if named:
        return text.replace("**", named)
    return text.replace(", **", "").replace("**, ", "").replace("**", "")


def _typed(text: str) -> Any:
    """A value of a query: a number or a truth value as such."""
    return int(text) if text.isdigit() else {"true": True, "false": False}.get(text, text)


def _python(name: str, value: Any) -> str:
    """A value as it is written for the SDK."""
    if isinstance(value, dict) and name in _STRUCTS:
        inner = ", ".join(f"{part}={_python(part, one)}" for part, one in value.items())
        return f"{_STRUCTS[name]}({inner})"
    if isinstance(value, dict) and name == "due":
        return f"LocalTime({', '.join(f'{part}={one!r}' for part, one in value.items())})"
    return repr(value)
