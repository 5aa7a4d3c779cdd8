"""Operations of the API, asked in this process as the caller of a session.

A request is made as if it had come over the network, and goes to the endpoint that the application's router finds: it
is authorised, counted, bounded and recorded there like any other.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from membership.errors import MinutehandError
from scheduler_service.api.http.endpoint import PRINCIPAL, REQUEST_ID
from scheduler_service.api.http.route import ADMISSION, Admission
from scheduler_service.usecases.authenticate import Principal

_BODY_LIMIT: Final = 1 << 22
Query = Mapping[str, str | int | Sequence[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that a page was made from. `path`: with its query, as it stands in a curl line."""

    method: str
    path: str
    body: Any = None


class OperationUnsuccessful(MinutehandError):
    """The API's answer was a problem."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status = status
        self.problem = problem

    @property
    def kind(self) -> str:
        return str(self.problem.get("type", "")).rpartition("/")[2]

    @property
    def faults(self) -> Mapping[str, str]:
        """What is wrong with which field, by its pointer."""
        return {one["pointer"]: one["detail"] for one in self.problem.get("errors", ())}


class OperationRefused(OperationUnsuccessful):
    """The request can't be done as it is: the page may say so beside its form."""


def unsuccessful(status: int, problem: Mapping[str, Any]) -> OperationUnsuccessful:
    return (OperationUnsuccessful if status >= 500 else OperationRefused)(status, problem)


def refused_form(faults: Mapping[str, str]) -> OperationRefused:
    """For a form that can't be a request: as the API says it of a request, by the same pointers."""
    errors = [{"pointer": pointer, "detail": detail} for pointer, detail in faults.items()]
    return OperationRefused(422, {"type": "/problems/invalid", "title": "Invalid request", "errors": errors})


class Operations:
    """The operations that one page asks for. `asked`: all that it has asked for, in order."""

    def __init__(self, request: web.Request, principal: Principal) -> None:
        self._request = request
        self._principal = principal
        self.asked: list[Asked] = []
        self.tags: dict[str, str] = {}
        """The entity tags of what was answered, by path."""

    async def get(
        self,
        path: str,
        query: Query | None = None,
        /,
        *,
        shown: bool = True,
        **more: str | int | Sequence[str] | None,
    ) -> Any:
        """The JSON of an answer. `shown`: the page says that it was asked for. Raises OperationUnsuccessful."""
        return await self._ask("GET", path, {**(query or {}), **more}, None, shown=shown)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        shown: bool = True,
    ) -> Any:
        """The JSON of an answer; None: it has no body. `shown` False: for a body with secrets. Raises
        OperationUnsuccessful."""
        return await self._ask(method, path, {}, body, headers=headers, shown=shown)

    async def stream(
        self, path: str, *, headers: Mapping[str, str], still: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Have an operation answer this page's request itself, as long as its session is `still` good. Raises
        OperationUnsuccessful."""
        response = await self._answer(self._request.method, path, None, headers, still=still)
        if response.status >= 400:
            raise unsuccessful(response.status, _json_of(response) or {})
        return response

    async def _ask(
        self,
        method: str,
        path: str,
        query: Query,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        shown: bool = True,
    ) -> Any:
        whole = path + _query(query)
        if shown:
            self.asked.append(Asked(method=method, path=whole, body=body))
        try:
            data = None if body is None else json.dumps(body).encode()
        except RecursionError:
            problem = {"type": "/problems/malformed", "detail": "the body is nested too deeply"}
            raise unsuccessful(400, problem) from None
        response = await self._answer(method, whole, data, headers or {})
        answer = _json_of(response)
        if (tag := response.headers.get("ETag")) is not None:
            self.tags[path] = tag
        if response.status >= 400:
            raise unsuccessful(response.status, answer or {})
        return answer

    async def _answer(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        still: Callable[[], Awaitable[bool]] | None = None,
    ) -> web.StreamResponse:
        outer = self._request
        given: CIMultiDict[str] = CIMultiDict({"Host": outer.host, **headers})
        if (request_id := outer.headers.get(REQUEST_ID)) is not None:
            given[REQUEST_ID] = request_id
        if body is not None:
            given["Content-Type"], given["Content-Length"] = "application/json", str(len(body))
        inner = web.Request(
            RawRequestMessage(
                method,
                path,
                HttpVersion11,
                CIMultiDictProxy(given),
                tuple((name.encode(), value.encode()) for name, value in given.items()),
                False,
                None,
                False,
                False,
                URL(path, encoded=True),
            ),
            _payload(outer, body or b""),
            outer.protocol,
            outer.writer,
            outer.task,
            asyncio.get_running_loop(),
            client_max_size=_BODY_LIMIT,
        )
        inner[PRINCIPAL] = self._principal
        if still is not None:
            inner[ADMISSION] = Admission(still)
        return await outer.app._handle(inner)


def _json_of(response: web.StreamResponse) -> Any:
    text = response.body if isinstance(response, web.Response) else None
    return msgspec.json.decode(text) if isinstance(text, bytes) and text.strip() else None


def _payload(outer: web.Request, body: bytes) -> StreamReader:
    payload = StreamReader(outer.protocol, _BODY_LIMIT, loop=asyncio.get_running_loop())
    payload.feed_data(body)
    payload.feed_eof()
    return payload


def _query(query: Query) -> str:
    pairs = [
        (name, str(one))
        for name, value in query.items()
        if value is not None and value != ""
        for one in ([value] if isinstance(value, str | int) else value)
    ]
    return "?" + urlencode(pairs, quote_via=quote) if pairs else ""


def part(text: str) -> str:
    """A variable part of a path, percent-encoded."""
    return quote(text, safe="")
