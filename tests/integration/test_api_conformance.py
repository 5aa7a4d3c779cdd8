"""Requests generated from the OpenAPI document, valid and invalid, against a server over the store in memory.

Every run sends the same cases to every operation, unless it asks for random ones (--hypothesis-profile). It checks that
statuses, content types, headers and bodies are documented, that no request causes a server error, that keys are
required, that invalid requests are refused, and that other methods are answered 405.
"""

import asyncio
import threading
from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS
from schemathesis.core.parameters import ParameterLocation

from scheduler_service.api.http.route import operation_id
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.api_document import api_document
from tests.support.api_story import Story
from tests.support.nodes import Nodes

CASES = 10
"""Cases of each operation, in addition to those that cover every keyword of its schemas."""
THERE = ("put_client", "create_schedule", "put_cron", "put_destination", "create_secret", "create_key")
NAMED_BY_DOMAIN_RULES = ["positive_data_acceptance"]
"""Rules that no schema can state, such as whether a URL may be called, are refused with 422."""

UNJUDGED = {"create_batch": ["negative_data_rejection"]}
"""Items of a batch are refused individually, in an answer that is 200."""


class Server:
    """An API in a thread of its own, with one of everything in its store."""

    def __init__(self) -> None:
        self.port = 0
        self.names: dict[str, str] = {}
        self.session = requests.Session()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "Server":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.session.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()

    async def _serve(self) -> None:
        try:
            async with ApiHarness() as api:
                await api.add_built_in_clients()
                story = Story(api)
                for id_ in THERE:
                    await story.send(id_)
                await Nodes(api).add("node-a")
                assert api.server is not None
                self.port, self.names = api.server.port, story.names
                self._ready.set()
                await self._stop.wait()
        finally:
            self._ready.set()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


schema = schemathesis.openapi.from_dict(api_document().value)


@schema.parametrize()
@settings(
    max_examples=CASES,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_is_answered_is_documented(case: schemathesis.Case, server: Server) -> None:
    assert case.meta is not None
    if not case.meta.is_negative_at(ParameterLocation.PATH):
        case.path_parameters.update({name: server.names[name] for name in case.path_parameters})
    unjudged = [*NAMED_BY_DOMAIN_RULES, *UNJUDGED.get(case.operation.definition.raw["operationId"], ())]
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{server.port}",
        session=server.session,
        headers={"Authorization": f"Bearer {ADMIN_KEY}"},
        excluded_checks=CHECKS.get_by_names(unjudged),
    )


def test_every_operation_is_tested() -> None:
    labels = {result.ok().definition.raw["operationId"] for result in schema.get_all_operations()}
    assert labels == {operation_id(route) for route in ROUTES} == EXAMPLES.keys()
