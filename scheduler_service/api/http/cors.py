"""Cross-origin requests: the web pages that may call the API.

A browser shows a page the answer to a request only if the answer names the page's origin, and asks first (a preflight,
`OPTIONS`) whether it may send a key. Where no origins are allowed, answers say nothing of them. Pages send their key in
a header, so what browsers add by themselves, such as cookies, is never allowed.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler_service.api.http.preconditions import ETAG
from scheduler_service.api.http.route import IDEMPOTENCY_KEY, LOCATION, REPLAYED, SERVER
from scheduler_service.api.rate_limit import RATE_HEADERS

TAKEN: Final = (
    "Authorization",
    "Content-Type",
    IDEMPOTENCY_KEY,
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
    "X-Request-Id",
)
"""Headers of requests that pages may set."""
SHOWN: Final = (
    *LOCATION,
    *ETAG,
    *REPLAYED,
    *RATE_HEADERS,
    "Minutehand-Minute-Load",
    "Minutehand-Once",
    "Retry-After",
    "X-Request-Id",
)
"""Headers of answers that pages may read."""
PREFLIGHT_SECONDS: Final = 600
"""How long a browser may remember a preflight: a change of the setting holds for all pages after this."""


class CrossOrigin:
    """Lets pages of `origins` call an application."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)

    def allow_in(self, app: web.Application) -> None:
        """Have every answer of an application say which page may read it."""
        if self._origins:
            app.on_response_prepare.append(self._tell)

    def answer_preflights(self, methods: str, otherwise: Handler) -> Handler:
        """The handler of a path's other methods: it answers preflights of these origins. `methods`: those of the path,
        separated by commas."""
        if not self._origins:
            return otherwise
        headers = {
            "Access-Control-Allow-Methods": methods,
            "Access-Control-Allow-Headers": ", ".join(TAKEN),
            "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
            **SERVER,
        }

        async def handle(request: web.Request) -> web.StreamResponse:
            asks = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
            if asks and request.headers.get("Origin") in self._origins:
                return web.Response(status=204, headers=headers)
            return await otherwise(request)

        return handle

    async def _tell(self, request: web.Request, response: web.StreamResponse) -> None:
        # Caches must not give a page the answer that another page, or none, has got.
        varies = response.headers.get("Vary")
        response.headers["Vary"] = "Origin" if varies is None else f"{varies}, Origin"
        origin = request.headers.get("Origin")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(SHOWN)
