"""Callbacks without a schedule: one sample, sent now, and the whole exchange as the answer."""

import math

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import CREATES, Call, Route, answer
from scheduler_service.api.problems import Refusal
from scheduler_service.api.sample_views import ExchangeView, exchange_view
from scheduler_service.domain.samples import TooManySamples
from scheduler_service.usecases.trial_call import SampleRequest

_SAMPLE = Body(SampleRequest)


async def test_callback(call: Call) -> web.Response:
    client, send_sample = call.tenant, call.services.send_sample
    send_sample.admit(client)
    request = await call.body(_SAMPLE, lambda wrong: send_sample.faults(client, wrong))
    sample = await send_sample.draw(client, request)
    call.deadline.met()  # a sample may take as long as the client's calls may
    try:
        exchange = await send_sample.send(sample)
    except TooManySamples as error:
        seconds = max(math.ceil(error.retry_after_seconds), 1)
        raise Refusal("too-many-samples", str(error), headers={"Retry-After": str(seconds)}) from None
    call.log("sample-sent", client_id=client.client_id, schedule_id=str(sample.definition.schedule_id))
    return answer(exchange_view(sample.definition.schedule_id, exchange))


ROUTES = (
    Route(
        method="POST",
        path="/v1/clients/{client_id}/callbacks:test",
        access=Access.CLIENT,
        handler=test_callback,
        summary="Send one signed sample now, and see the whole exchange; nothing of it is stored",
        request=SampleRequest,
        response=ExchangeView,
        problems=(*CREATES, "too-many-samples", "secret-locked"),
    ),
)
