"""The description of the API: the OpenAPI document, its page, and a page for each type of problem."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.html import HTML, PAGE_HEADERS, SEARCHED_HEADERS, TEXT
from scheduler_service.api.http.route import JSON, SERVER, Document, RequestContext, Route
from scheduler_service.api.openapi.docs_page import problem_html, problem_text
from scheduler_service.api.problems import KINDS
from scheduler_service.domain.errors import NotFound

OpenApi = dict[str, Any]


async def get_openapi(context: RequestContext) -> web.Response:
    return _unless_known(context, context.documents.openapi, JSON, PAGE_HEADERS)


async def get_docs(context: RequestContext) -> web.Response:
    return _unless_known(context, context.documents.page, HTML, SEARCHED_HEADERS)


async def get_llms(context: RequestContext) -> web.Response:
    return _unless_known(context, context.documents.llms, TEXT, PAGE_HEADERS)


async def get_problem(context: RequestContext) -> web.Response:
    """HTML if Accept names it, as browsers do; else text."""
    name = context.path("kind")
    kind = KINDS.get(name)
    if kind is None:
        raise NotFound(f"there is no such problem; known are {', '.join(KINDS)}")
    html = "text/html" in context.request.headers.get("Accept", "").lower()
    body, media = (problem_html(name, kind), HTML) if html else (problem_text(kind), TEXT)
    return web.Response(body=body.encode(), headers={**PAGE_HEADERS, **SERVER, "Content-Type": media, "Vary": "Accept"})


def _unless_known(
    context: RequestContext, document: Document, media: str, page_headers: Mapping[str, str]
) -> web.Response:
    """The body, or 304 if the caller has it already."""
    headers = {**page_headers, **SERVER, "ETag": f'"{document.etag}"', "Cache-Control": "no-cache"}
    given = context.request.if_none_match
    if given is not None and any(one.value in (document.etag, "*") for one in given):
        return web.Response(status=304, headers=headers)
    return web.Response(body=document.body, headers={**headers, "Content-Type": media})


_ETAG = {"ETag": "The version of the document; send it in If-None-Match to get it only if it has changed."}

ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        access=Access.OPEN,
        handler=get_openapi,
        summary="This document",
        response=OpenApi,
        headers=_ETAG,
        others={304: None},
    ),
    Route(
        method="GET",
        path="/docs",
        access=Access.OPEN,
        handler=get_docs,
        summary="This document as a page",
        headers=_ETAG,
        media=(HTML,),
        others={304: None},
    ),
    Route(
        method="GET",
        path="/llms.txt",
        access=Access.OPEN,
        handler=get_llms,
        summary="A list of the operations for language models",
        headers=_ETAG,
        media=(TEXT,),
        others={304: None},
    ),
    Route(
        method="GET",
        path="/problems/{kind}",
        access=Access.OPEN,
        handler=get_problem,
        summary="Explain a type of problem and what to do about it",
        media=(TEXT, HTML),
    ),
)
