"""The overdue rate of a client and of all: who may set it, what is refused, and that older nodes hold it back."""

from typing import Any

import pytest

from scheduler_service.domain.overdue_rates import OVERDUE_RATES_SINCE
from tests.support.api import ApiHarness
from tests.support.nodes import Nodes

ALL = "/v1/cluster/overdue-rate"


async def test_it_is_set_shown_and_removed(api: ApiHarness) -> None:
    assert (await api.send("GET", ALL)).json == {"overdue_per_second": None}
    for rate in (50, 0.5):
        assert (await api.send("PUT", ALL, json={"overdue_per_second": rate})).json == {"overdue_per_second": rate}
        assert (await api.send("GET", ALL)).json == {"overdue_per_second": rate}
    for _ in range(2):
        assert (await api.send("DELETE", ALL)).status == 204
    assert (await api.send("GET", ALL)).json == {"overdue_per_second": None}


@pytest.mark.parametrize("body", [{}, {"overdue_per_second": None}, {"overdue_per_second": 0}, {"rate": 1}])
async def test_what_is_no_rate_is_refused(api: ApiHarness, body: dict[str, Any]) -> None:
    assert (await api.send("PUT", ALL, json=body)).status == 422
    settings = {"poller_quota": 1, "settings": {"overdue_per_second": 0}}
    assert (await api.send("PUT", "/v1/clients/shop", json=settings)).status == 422


async def test_only_administrators_set_a_clients(api: ApiHarness) -> None:
    await api.register("shop")
    manager = (await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage"})).json["key"]
    for method in ("GET", "PUT", "DELETE"):
        asked = {"json": {"overdue_per_second": 1}} if method == "PUT" else {}
        assert (await api.send(method, ALL, key=manager, **asked)).status == 403
    path = "/v1/clients/shop/settings"
    refused = await api.send("PATCH", path, key=manager, json={"overdue_per_second": 1})
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/overdue_per_second")
    body = {"poller_quota": 1, "settings": {"overdue_per_second": 20}}
    changed = await api.send("PUT", "/v1/clients/shop", json=body)
    assert (changed.status, changed.json["settings"]["overdue_per_second"]) == (200, 20.0)
    own = await api.send("PATCH", path, key=manager, json={"timeout_seconds": 2})
    assert own.json["settings"]["overdue_per_second"] == 20.0, "what a client changes itself leaves it"


async def test_none_begins_while_nodes_run_that_would_not_keep_to_it(api: ApiHarness) -> None:
    await api.register("shop")
    nodes = Nodes(api)
    older = await nodes.add("older", knows=OVERDUE_RATES_SINCE - 1)
    await nodes.beat(older, seconds=3)
    for path, body in (
        (ALL, {"overdue_per_second": 1}),
        ("/v1/clients/shop", {"poller_quota": 1, "settings": {"overdue_per_second": 1}}),
        ("/v1/clients/new", {"poller_quota": 1, "settings": {"overdue_per_second": 1}}),
    ):
        refused = await api.send("PUT", path, json=body)
        assert (refused.status, refused.json["type"]) == (409, "/problems/older-nodes"), path
    assert (await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 2})).status == 200
    assert (await api.send("DELETE", ALL)).status == 204
