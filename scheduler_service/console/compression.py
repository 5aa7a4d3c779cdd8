"""Which answers are sent compressed.

Pages repeat themselves: compressed, their lists are a sixth of the size. But who may have a browser ask for pages with
texts of their choice, and sees how large the answers are, learns what else is in them. So a page is compressed only for
a request that the console's own pages caused, or their reader, which browsers say in a header that no page can set.
They leave it out over HTTP from another machine, where pages are sent as they are. Answers to forms may show keys and
bodies; they are never compressed. The form token on a page is of no use without the session's cookie.
"""

import gzip
from typing import Final

from aiohttp import web

COMPRESSED_LEAST: Final = 1_000
"""Bytes. Less fits into one packet as it is."""
_LEVEL: Final = 5


def takes_gzip(request: web.Request) -> bool:
    """By the plain names that browsers send; a request that rules it out by a weight of 0 does not get it either."""
    named = [one.strip().lower() for one in request.headers.get("Accept-Encoding", "").split(",")]
    return "gzip" in named


def may_compress(request: web.Request) -> bool:
    """Whether a page that answers this may be compressed."""
    own = request.headers.get("Sec-Fetch-Site") in ("same-origin", "none")
    return own and request.method == "GET" and takes_gzip(request)


def compressed(page: bytes) -> bytes:
    return gzip.compress(page, _LEVEL, mtime=0)
