"""The routes behind a session, and a client with one of everything, for tests of who may do what."""

import re
from typing import Any

from scheduler_service.api.http.route import Route
from scheduler_service.console.routes import LOGIN, LOGOUT, routes_of
from scheduler_service.console.sessions import LoginPages
from scheduler_service.console.settings import ConsoleSettings
from tests.support.api import ApiHarness, RecordedTrialCalls, cron, schedule

ROUTES = routes_of(LoginPages(ConsoleSettings(), tls=False))
OPEN = {("GET", LOGIN), ("POST", LOGIN), ("GET", "/console/static/{static_version}/{static_name}")}
BEHIND = [route for route in ROUTES if (route.method, route.path) not in OPEN]
OF_CLIENTS = [route for route in BEHIND if "{client_id}" in route.path]
OF_OPERATORS = [route for route in BEHIND if route not in OF_CLIENTS and route.path not in ("/console", LOGOUT)]
FORMS = [route for route in BEHIND if route.method == "POST"]
SHOWN = [
    route for route in (*OF_CLIENTS, *OF_OPERATORS) if route.method == "GET" and not route.path.endswith("/stream")
]
"""Pages that end."""
RECORDS = ("audit_log", "console_sessions", "api_keys", "minute_balance")
"""Tables that say who came and when a key was used; and one that is written a moment after creates."""


class World:
    """The client `other` with one of everything, each called private, and what addresses call them."""

    def __init__(self, api: ApiHarness) -> None:
        self.api = api
        self.keys: dict[str, str] = {}
        self.names: dict[str, str] = {"node_id": "node-a"}

    async def make(self) -> None:
        api = self.api
        await api.add_built_in_clients()
        self.keys = {name: await api.register(name) for name in ("shop", "other")}
        other, to = self.keys["other"], {"destination": "private-destination"}
        made = await api.send("POST", "/v1/clients/other/schedules", key=other, json=schedule(label="private"))
        await api.send("PUT", "/v1/clients/other/crons/private-cron", key=other, json=cron(label="private"))
        await api.send(
            "PUT", "/v1/clients/other/destinations/private-destination", json={"url": "https://private.example"}
        )
        await api.send("PUT", "/v1/clients/other/subscriptions/private-subscription", json=to)
        secret = await api.send("POST", "/v1/clients/other/signing-secrets")
        window = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "states": ["failed"]}
        asked = await api.send(
            "POST", "/v1/clients/other/reconciliations", key=other, json={**window, "action": "report"}
        )
        self.names |= {
            "schedule_id": made.json["schedule_id"],
            "key_id": other.split("_")[1],
            "secret_id": secret.json["secret_id"],
            "reconciliation_id": asked.json["reconciliation_id"],
            "cron_id": "private-cron",
            "destination": "private-destination",
            "subscription": "private-subscription",
        }

    def path(self, route: Route, client_id: str = "other") -> str:
        names = {**self.names, "client_id": client_id}
        return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], route.path)

    def done(self) -> Any:
        """All that a form may change, by table."""
        tables = (name for name in self.api.connection.tables if not name.startswith(RECORDS))
        rows = {name: self.api.connection.rows(name) for name in tables}
        keys = [
            {name: value for name, value in row.items() if name != "last_used_at"}
            for row in self.api.connection.rows("api_keys")
        ]
        nodes, calls = self.api.nodes, self.api.trial_calls
        assert isinstance(calls, RecordedTrialCalls)
        rows |= {"keys": keys, "drained": list(nodes.drained), "undrained": list(nodes.undrained)}
        return rows | {"trial calls": list(calls.sent)}
