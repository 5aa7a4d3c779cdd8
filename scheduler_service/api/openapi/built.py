"""The document and its page as bytes, made once for a route table."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from scheduler_service.api.http.route import Document, Route
from scheduler_service.api.openapi.docs_page import docs_page
from scheduler_service.api.openapi.document import build_document


@dataclass(frozen=True, slots=True)
class Built:
    """A `http.route.Documents`."""

    openapi: Document
    page: Document


@lru_cache(maxsize=4)
def documents_of(routes: tuple[Route, ...]) -> Built:
    """Remembered: every application of a process is built from the same table."""
    document = build_document(routes)
    return Built(_named(msgspec.json.encode(document)), _named(docs_page(document).encode()))


def _named(body: bytes) -> Document:
    return Document(body, hashlib.sha256(body).hexdigest()[:32])
