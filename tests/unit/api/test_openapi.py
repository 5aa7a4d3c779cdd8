"""The OpenAPI document is valid, contains every route, and is served as the same bytes to every caller."""

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from poller_cluster.delivery.headers import callback_headers
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import CURSOR_PATTERN, PATH_PARTS
from scheduler_service.api.http.route import RequestContext, Route, no_content, operation_id
from scheduler_service.api.openapi.answers import kinds_of
from scheduler_service.api.openapi.docs_page import docs_page
from scheduler_service.api.openapi.document import TAGS, build_document, tag_of
from scheduler_service.api.openapi.webhook import CALLBACK_HEADERS
from scheduler_service.api.problems import KINDS
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.reasons import REASONS
from scheduler_service.domain.trial_calls import TRIAL_HEADER
from tests.support.api import ApiHarness
from tests.support.api_document import api_document

NAMES = [f"{route.method} {route.path}" for route in ROUTES]
DOCUMENT = api_document().value
OPERATION_IDS = {
    "create_schedule", "get_schedule", "cancel_schedule", "create_batch", "list_schedules",
    "put_cron", "get_cron", "delete_cron", "list_crons", "pause_cron", "resume_cron", "trigger_cron", "list_runs",
    "backfill_cron", "pause_crons", "resume_crons",
    "preview_cron", "get_balance", "cancel_schedules", "reschedule_schedule", "redeliver_schedule", "list_attempts",
    "explain_schedule",
    "list_dead_letters", "redeliver_dead_letters", "acknowledge_dead_letters", "list_audits", "trial_call",
    "create_reconciliation", "get_reconciliation", "list_reconciliations", "stop_reconciliation",
    "list_reconciled_schedules", "reschedule_schedules",
    "get_usage", "put_schedule", "get_schedule_by_key", "cancel_schedule_by_key", "count_schedules",
    "put_client", "list_clients", "get_client", "delete_client", "suspend_client", "resume_client",
    "create_key", "list_keys", "revoke_key", "create_secret", "list_secrets", "delete_secret",
    "create_admin_key", "list_admin_keys", "revoke_admin_key",
    "list_audit_log", "get_cluster", "drain_node", "undrain_node", "list_pollers", "livez", "readyz", "metrics",
    "get_openapi", "get_docs", "get_problem", "acknowledge",
}  # fmt: skip
"""Generated clients name their methods by these: they may be added to, but not changed."""


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


async def nothing(call: RequestContext) -> Any:
    return no_content()


def test_it_is_valid_openapi_3_1() -> None:
    assert [str(error) for error in OPENAPI_31_VALIDATOR.iter_errors(DOCUMENT)] == []
    assert list(OPENAPI_31_VALIDATOR.iter_errors({**DOCUMENT, "info": {}})) != []


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 60
    for reference in found:
        assert api_document().resolve({"$ref": reference}) is not None
    unused = {
        f"#/components/{section}/{name}"
        for section in ("schemas", "parameters", "headers", "responses")
        for name in DOCUMENT["components"][section]
    } - found
    assert unused == set()


def values(value: Any, name: str) -> Iterator[Any]:
    """All values of `name` at any depth."""
    if isinstance(value, dict):
        yield from ([value[name]] if name in value else [])
        for one in value.values():
            yield from values(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from values(one, name)


def parameters_of(operation: Any) -> list[Any]:
    return [api_document().resolve(parameter) for parameter in operation["parameters"]]


def operations() -> list[Any]:
    """The operations of paths, and the callback."""
    described = [*DOCUMENT["paths"].values(), *DOCUMENT["webhooks"].values()]
    return [operation for methods in described for operation in methods.values()]


def test_examples_of_parameters_have_the_types_of_their_parameters() -> None:
    found = [one for operation in operations() for one in parameters_of(operation) if "example" in one]
    assert {one["schema"]["type"] for one in found} == {"string", "integer", "array"}
    for one in found:
        whole = jsonschema_rs.Draft202012Validator(one["schema"], validate_formats=True)
        assert whole.is_valid(one["example"]), one


def test_every_problem_is_of_one_type() -> None:
    media = list(values(DOCUMENT["components"]["responses"], "application/problem+json"))
    assert media
    assert {str(one["schema"]) for one in media} == {"{'$ref': '#/components/schemas/Problem'}"}
    for name, response in DOCUMENT["components"]["responses"].items():
        assert list(response["content"]["application/problem+json"]["examples"]) == name.split(".")


def test_cursors_and_headers_have_their_patterns() -> None:
    cursors = [schema for name in ("cursor", "next_cursor") for schema in values(DOCUMENT["components"], name)]
    cursors += [
        one["schema"] for operation in operations() for one in parameters_of(operation) if one["name"] == "cursor"
    ]
    assert len(cursors) > 10
    assert {pattern for cursor in cursors for pattern in values(cursor, "pattern")} == {CURSOR_PATTERN}
    assert all("pattern" in str(cursor) for cursor in cursors)
    sent = [
        one
        for operation in operations()[:-1]
        for one in parameters_of(operation)
        if one["in"] == "header" and one["name"] != "X-Request-Id"  # of any form: a bad one is replaced, not refused
    ]
    answers = [
        api_document().resolve(one) for operation in operations()[:-1] for one in operation["responses"].values()
    ]
    answered = [api_document().resolve(header) for answer in answers for header in answer["headers"].values()]
    for one in (*sent, *answered):
        assert one["schema"]["type"] == "integer" or {"pattern", "const"} & one["schema"].keys(), one
    headers = DOCUMENT["components"]["schemas"]["CallbackRequest"]["properties"]["headers"]
    name, value = headers["propertyNames"]["pattern"], headers["additionalProperties"]["pattern"]
    assert [bool(re.search(name, text)) for text in ("X-Shop", "a b", "", "a:")] == [True, False, False, False]
    assert [bool(re.search(value, text)) for text in ("", "a b", " a", "a\r")] == [True, True, False, False]


def test_operations_that_compare_entity_tags_say_so() -> None:
    for route in ROUTES:
        operation = api_document().operation(route)
        names = {parameter["name"] for parameter in parameters_of(operation)}
        assert ({"If-Match", "If-None-Match"} <= names) == ("412" in operation["responses"])


def test_exactly_the_routes_are_in_it() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}


def test_every_module_of_routes_is_in_the_table() -> None:
    package = import_module(ROUTES[0].handler.__module__.rpartition(".")[0])
    modules = [import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)]
    listed = [route for module in modules for route in getattr(module, "ROUTES", ())]
    assert listed
    assert set(map(id, listed)) == set(map(id, ROUTES))


def test_operations_have_names_that_stay() -> None:
    assert {operation_id(route) for route in ROUTES} >= OPERATION_IDS
    assert len({operation_id(route) for route in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_what_every_operation_says(route: Route) -> None:
    operation = api_document().operation(route)
    assert set(operation["tags"]) == {tag_of(route.path)} <= TAGS.keys()
    assert operation["summary"][0].isupper()
    assert not operation["summary"].endswith(".")
    assert (operation["security"] == []) == (route.access is Access.OPEN)
    parameters = parameters_of(operation)
    assert [one["name"] for one in parameters if one["in"] == "path"] == re.findall(r"\{(\w+)\}", route.path)
    assert all(parameter["description"].endswith(".") for parameter in parameters)
    assert ("requestBody" in operation) == (route.request is not None)
    for response in operation["responses"].values():
        assert "X-Request-Id" in api_document().resolve(response)["headers"]


def test_operations_that_take_an_idempotency_key_say_so() -> None:
    found = set()
    for route in ROUTES:
        operation = api_document().operation(route)
        names = {parameter["name"] for parameter in parameters_of(operation)}
        assert ("Idempotency-Key" in names) == route.idempotent
        replay = "Idempotency-Replayed" in operation["responses"].get("200", {}).get("headers", {})
        assert replay == route.idempotent
        assert ("idempotency-key-reused" in str(operation["responses"].get("422"))) == route.idempotent
        if route.idempotent:
            found.add(operation_id(route))
    assert found >= {"create_schedule", "create_batch", "redeliver_schedule", "reschedule_schedule"}


def test_a_route_that_names_an_unknown_problem_is_refused() -> None:
    route = Route(
        method="GET", path="/v1/x", access=Access.ANY, handler=nothing, summary="X", problems=("no-such-problem",)
    )
    with pytest.raises(ValueError, match="no-such-problem"):
        build_document([route])


def test_every_problem_is_somewhere_or_says_why_not() -> None:
    nowhere = KINDS.keys() - {kind for route in ROUTES for kind in kinds_of(route)}
    assert nowhere == {"method-not-allowed", "conflict"}, "the first is of no operation, the second for unnamed kinds"


def test_path_parts_are_declared_and_used() -> None:
    assert {name for route in ROUTES for name in re.findall(r"\{(\w+)\}", route.path)} == PATH_PARTS.keys()


def test_the_callback_has_the_headers_that_are_sent() -> None:
    sent = callback_headers(
        [],
        timestamp=0,
        signature="v1,x",
        client_id="shop",
        schedule_id="s",
        cron_id="nightly",
        due_ms=0,
        attempt=1,
        fence=1,
        in_doubt=True,
        user_agent="Minutehand/1",
        ack_url="https://minutehand.example/v1/acknowledgements/token",
    )
    assert {name for name, _ in (*sent, TRIAL_HEADER)} == CALLBACK_HEADERS.keys()
    least = callback_headers(
        [],
        timestamp=0,
        signature="",
        client_id="shop",
        schedule_id="s",
        cron_id=None,
        due_ms=0,
        attempt=1,
        fence=1,
        in_doubt=False,
        user_agent="Minutehand/1",
    )
    assert {name for name, _ in least} == {name for name, header in CALLBACK_HEADERS.items() if header.always}
    described = DOCUMENT["webhooks"]["callback"]["post"]["parameters"]
    assert {parameter["name"] for parameter in described} == CALLBACK_HEADERS.keys()


async def test_a_query_parameter_that_is_not_declared_is_refused(api: ApiHarness, key: str) -> None:
    for method, path in (("GET", "/v1/clients"), ("POST", "/v1/clients/shop/schedules:cancel"), ("GET", "/v1/cluster")):
        reply = await api.send(method, f"{path}?surprise=1", json={} if method == "POST" else None)
        assert reply.status == 422
        assert reply.faults == {"/surprise": "is not a known parameter; this path has none"}
    assert (await api.send("GET", "/livez?now=1", key=None)).status == 200


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_who_has_the_document_is_not_sent_it_again(api: ApiHarness, path: str) -> None:
    first = await api.send("GET", path, key=None)
    etag = first.headers["ETag"]
    assert first.status == 200
    for given in (etag, f'"other", {etag}', "*", f"W/{etag}"):
        again = await api.send("GET", path, key=None, headers={"If-None-Match": given})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
    changed = await api.send("GET", path, key=None, headers={"If-None-Match": '"other"'})
    assert (changed.status, changed.body) == (200, first.body)
    assert (await api.send("HEAD", path, key=None)).headers["ETag"] == etag


async def test_it_is_served_to_everybody(api: ApiHarness) -> None:
    reply = await api.send("GET", "/openapi.json", key=None)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.json == DOCUMENT


def test_every_reason_of_a_schedule_is_told_in_document_and_page() -> None:
    told, page = DOCUMENT["components"]["schemas"]["ScheduleView"]["properties"]["reason"], docs_page(DOCUMENT)
    assert [
        reason for reason, sentence in REASONS.items() if f"`{reason}`: {sentence}." not in told["description"]
    ] == []
    assert [reason for reason in REASONS if f"<code>{reason}</code>: " not in page] == []
