"""HTML pages: a frame, one inline style sheet, at most one inline script, and headers that allow nothing else."""

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Final

HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"


def _static(name: str) -> str:
    return (files("scheduler_service.api.http") / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


SAMPLES_STYLE: Final = _static("samples.css")
SEARCH: Final = _static("search.js")
_STYLE: Final = _static("page.css") + SAMPLES_STYLE


def _headers(scripts: str) -> Mapping[str, str]:
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'; {scripts}base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


PAGE_HEADERS: Final = _headers("")
"""These allow the style sheet and no script, picture, font, form or frame from any origin."""
SEARCHED_HEADERS: Final = _headers(f"script-src 'sha256-{_hash(SEARCH)}'; ")
"""They also allow the script."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\((https://[^)\s]+)\)")


def page(title: str, body: str, *, beside: str = "") -> str:
    """A whole page. `body` is HTML; so is `beside`, the contents on its left, which can be searched."""
    if beside:
        body = f"{beside}\n<main>\n{body}\n</main>\n<script>{SEARCH}</script>"
    kind = ' class="beside"' if beside else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body{kind}>\n{body}\n</body>\n</html>\n"
    )


def prose(text: str) -> str:
    """HTML of a description: paragraphs with `code` and [links](https://...)."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return "".join(f"<p>{inline(part)}</p>\n" for part in paragraphs if part)


def inline(text: str) -> str:
    marked = _CODE.sub(r"<code>\1</code>", escape(text))
    return _LINK.sub(r'<a href="\2">\1</a>', marked)
