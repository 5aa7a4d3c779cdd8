"""The documentation in the form of https://llmstxt.org/: an index with a line for each page, and one text. Pure.

Pages are Markdown, named by their paths in the site.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Groups = Mapping[str, Sequence[str]]
FULL: Final = ("Start", "Use", "Guides", "Operate", "Understand")
"""Groups whose pages are in the one text; references are looked up where they are."""
LEFT_OUT: Final = frozenset({"changelog", "guides/chart", "decisions/index", "protocols/index"})
"""Their pages that are not."""
_LINE_LETTERS: Final = 160
_NO_PROSE: Final = ("#", "```", "|", "-", "!", "<", ">", ":", "1.")


def index_text(groups: Groups, texts: Mapping[str, str]) -> str:
    """All pages by group. Pages of no group that lie in the folder of an index, such as decisions, follow it."""
    parts = [f"# Minutehand\n\n> {' '.join(_paragraph(texts['index.md']).split())}"]
    for group, pages in groups.items():
        lines = [_line(page, texts) for one in pages for page in (one, *_below(one, texts))]
        parts.append("\n".join((f"## {group}\n", *lines)))
    whole = "- [llms-full.txt](llms-full.txt): the pages for users and operators, as one text"
    parts.append(f"## Whole\n\n{whole}\n- [openapi.json](openapi.json): the REST API as OpenAPI 3.1")
    return "\n\n".join(parts) + "\n"


def full_text(groups: Groups, texts: Mapping[str, str]) -> str:
    """The pages for users and operators, one after another."""
    pages = [page for group in FULL for page in groups[group] if page not in LEFT_OUT]
    return "\n\n".join(f"<!-- {page}.md -->\n{texts[f'{page}.md'].strip()}" for page in pages) + "\n"


def _below(page: str, texts: Mapping[str, str]) -> Iterator[str]:
    folder, _, name = page.rpartition("/")
    if name == "index":
        yield from (one.removesuffix(".md") for one in texts if one.startswith(f"{folder}/") and one != f"{page}.md")


def _line(page: str, texts: Mapping[str, str]) -> str:
    text = texts[f"{page}.md"]
    title = text.partition("\n")[0].removeprefix("# ")
    said = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(_paragraph(text).split()))
    sentence = re.split(r"(?<=[.?!]) (?=[A-Z`])", said)[0].removesuffix(":")
    if len(sentence) > _LINE_LETTERS:
        sentence = sentence[:_LINE_LETTERS].rpartition(" ")[0] + " ..."
    return f"- [{title}]({page}.md): {sentence}" if sentence else f"- [{title}]({page}.md)"


def _paragraph(text: str) -> str:
    """The first one of prose; nothing if the page has none."""
    parts = (part.strip() for part in re.sub(r"(?s)```.*?```", "", text).split("\n\n"))
    return next((part for part in parts if part and not part.startswith(_NO_PROSE)), "")
