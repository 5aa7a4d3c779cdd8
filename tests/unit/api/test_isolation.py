"""No client's key reaches another client's data: over any route, with own and foreign names in every place.

Requests are made from the route table, so a new route is covered.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Route
from scheduler_service.api.resources import ROUTES
from tests.support.two_clients import CANARY, OWNER, THIEF, Attempt, Stage

NAMES = [f"{route.method} {route.path}" for route in ROUTES]
CASES = 25
"""Cases for each route."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def judge(stage: Stage, attempt: Attempt) -> None:
    """Raises AssertionError if the thief learns or changes something of the owner's."""
    clients = stage.clients
    before = clients.owners_rows()
    reply = stage.run(clients.send(attempt))
    if attempt.route.access is not Access.OPEN:
        said = reply.body.decode() + str(reply.headers)
        leaked = [one for one in clients.secrets if one in said and one not in attempt.text + clients.stored]
        assert not leaked, f"{attempt.text} is told {leaked}"
    assert clients.owners_rows() == before, f"{attempt.text} changes what is the owner's"
    if f"/clients/{OWNER}" in attempt.path:
        assert reply.status == 404
    elif attempt.route.access in (Access.ADMIN, Access.CONFIGURED_ADMIN):
        assert reply.status in (403, 404)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
@settings(max_examples=CASES, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_a_key_reaches_its_own_client_only(stage: Stage, route: Route, data: st.DataObject) -> None:
    judge(stage, data.draw(stage.clients.attempts(route)))


def test_the_owner_has_rows_in_every_table_to_be_protected(stage: Stage) -> None:
    """The owner has rows wherever a client can have some, cursors of its listings, and can read them."""
    clients = stage.clients
    filled = {table for table, rows in clients.owners_rows().items() if rows}
    assert {"schedules", "clients", "crons", "api_keys", "signing_secrets", "dead_letters", "audit_log"} <= filled
    assert "destinations" in filled
    assert len(clients.cursors) >= 5
    reply = stage.run(clients.api.send("GET", f"/v1/clients/{OWNER}/crons", key=clients.owners_key))
    assert CANARY in reply.body.decode()
    reply = stage.run(clients.api.send("GET", f"/v1/clients/{THIEF}/crons", key=clients.thiefs_key))
    assert (reply.status, CANARY in reply.body.decode()) == (200, False)


@pytest.mark.parametrize(
    ("method", "path", "words"), [("GET", "/schedules/{schedule_id}", "is told"), ("DELETE", "/crons/{cron_id}", "is")]
)
def test_the_isolation_check_notices_a_key_that_permits_too_much(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, method: str, path: str, words: str
) -> None:
    """The check itself works: a key that permits too much fails it."""
    clients = stage.clients
    monkeypatch.setattr(clients, "thiefs_key", clients.owners_key)
    route = next(one for one in ROUTES if one.method == method and one.path.endswith(path))
    filled = path.format(**{name: values[0] for name, values in clients.names.items()})
    attempt = Attempt(route=route, path=f"/v1/clients/{OWNER}{filled}", query={}, body=None)
    with pytest.raises(AssertionError, match=words):
        judge(stage, attempt)


def test_a_variable_part_that_is_new_asks_for_names(stage: Stage) -> None:
    route = replace(ROUTES[0], path="/v1/clients/{client_id}/things/{thing_id}")
    with pytest.raises(AssertionError, match="thing_id that is new: let `TwoClients"):
        stage.clients.attempts(route)
