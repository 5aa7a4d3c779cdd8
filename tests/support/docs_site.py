"""Builds the documentation: `python -m tests.support.docs_site` writes it to build/docs.

    docs/*.md -----------------------------------------\\
    README, CHANGELOG, guides of helm/ and spark/ ------ > build/docs-pages --sphinx--> build/docs --> links checked,
    commands, settings, metrics, routes, docstrings ---/                                                 pages looked at

Beside the pages the site has them as Markdown, `llms.txt` (an index of those), `llms-full.txt` (those for readers of
the product in one) and `openapi.json`.

Nothing generated is committed. Links between Markdown files are written as a reader of the repository follows them.
Here they lead to the pages that those files become; a link to a file that becomes none is reduced to its text. Every
link and anchor of the built site is followed, and nothing may be loaded from another machine, so the site is complete
without internet. Every fault is an error.
"""

import ast
import inspect
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from minutehand import client, webhooks
from minutehand.config import TABLES
from minutehand.reference_pages import defaults, documented, field_docs, summary, toml
from scheduler_service.api.http.html import SAMPLES_STYLE
from scheduler_service.api.openapi.docs_page import docs_page
from scheduler_service.api.openapi.document import build_document
from scheduler_service.api.resources import ROUTES
from scheduler_service.runtime import log_actions
from tests.support.command_tree import command_tree
from tests.support.docs_llms import full_text, index_text
from tests.support.docs_reader import looked_at

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = ROOT / "build" / "docs-pages"
SITE: Final = ROOT / "build" / "docs"
ROOMS: Final = ("membership", "poller_cluster", "cql", "scheduler_service", "minutehand", "spark")
PROTOCOL_LINES: Final = 15
"""Modules with a docstring at least this long have a page for it, as all packages have."""
COLLECTED: Final = {
    "readme.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "changes.md": "changes/README.md",
    "guides/operating.md": "helm/guide.md",
    "guides/runbook.md": "helm/minutehand/runbook.md",
    "guides/chart.md": "helm/minutehand/README.md",
    "guides/spark.md": "spark/README.md",
    "reference/typescript.md": "sdk/typescript/README.md",
}
"""Pages with the files from which they are made."""
NAVIGATION: Final = {
    "Start": ("how-to/first-callback", "README <readme>"),
    "Use": (
        "using",
        "how-to/look-at-the-console",
        "how-to/follow-events",
        "how-to/get-notices",
        "how-to/know-what-is-overdue",
        "how-to/why-was-it-late",
        "how-to/forecast",
        "how-to/trace-calls",
        "how-to/ingest-kafka",
        "how-to/import-schedules",
        "how-to/move-from-goscheduler",
        "how-to/move-from-bigben",
    ),
    "Guides": (
        "how-to/verify-a-signature",
        "how-to/retries-and-dead-letters",
        "how-to/idempotency-and-own-keys",
        "how-to/at-most-once",
        "how-to/order-calls",
        "how-to/crons-and-daylight-saving",
        "how-to/answer-a-call",
        "how-to/long-work",
        "how-to/test-with-virtual-time",
    ),
    "Operate": (
        "operations",
        "Sizing, keys, backup, upgrades <guides/operating>",
        "guides/runbook",
        "guides/chart",
        "how-to/after-an-outage",
        "guides/spark",
        "performance",
        "changelog",
    ),
    "Reference": (
        "reference/rest",
        "cron-rules",
        "reference/sdk",
        "reference/typescript",
        "reference/commands",
        "reference/settings",
        "reference/metrics",
        "reference/log-actions",
    ),
    "Understand": ("architecture", "glossary", "decisions/index", "protocols/index"),
    "Contribute": (
        "contributing",
        "how-to/add-a-route",
        "how-to/add-a-statement",
        "how-to/add-a-migration",
        "how-to/add-a-spark-job",
        "how-to/add-a-metric",
        "how-to/add-a-setting",
        "how-to/add-a-command",
        "how-to/add-a-target",
        "how-to/release",
        "changes",
        "security",
    ),
}
"""Groups of the contents with their pages, in the order of the index. `TITLE <PAGE>`: under another title."""
GENERATED: Final = "<!-- generated references -->\n"
"""Where the index lists them."""
_REST_HEADING: Final = re.compile(
    r'(?:<h2 id="(?P<chapter>[^"]+)">|<section[^>]* id="(?P<section>[^"]+)">\s*<h3>)(?P<text>.*?)</h[23]>'
)
_IMAGE: Final = re.compile(r"!\[([^\]]*)\]\(([^)\s#:]+)\)")
LOADED: Final = {"icon", "preload", "stylesheet"}
"""Relations of links that make a page load the target."""
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def main() -> int:
    for directory in (PAGES, SITE):
        shutil.rmtree(directory, ignore_errors=True)
    faults = write_pages()
    sys.stderr.write("docs: building the pages, which takes a minute or more\n")
    options = ["-W", "--keep-going", "-q", "-j", "auto", "-d", str(PAGES / ".cache"), "-c", str(DOCS)]
    built = subprocess.run([sys.executable, "-m", "sphinx", *options, str(PAGES), str(SITE)], check=False)
    if built.returncode == 0:
        finish(SITE)
        faults += broken(SITE)
        faults += looked_at(SITE)
        sys.stdout.write(f"{SITE.relative_to(ROOT)}/index.html\n")
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else built.returncode


def write_pages() -> list[str]:
    """Write every page as Markdown for Sphinx; returns the faults of their links."""
    own = {
        path.relative_to(DOCS).as_posix(): f"docs/{path.relative_to(DOCS).as_posix()}" for path in DOCS.rglob("*.md")
    }
    sources = own | COLLECTED
    faults: list[str] = []
    pages = {page: _led((ROOT / source).read_text(), page, sources, faults) for page, source in sources.items()}
    references = _references()
    listed = "".join(f"- [{_title(text)}]({page})\n" for page, text in references.items())
    if GENERATED not in pages["index.md"]:
        faults.append(f"docs/index.md: there is no place for the generated references, {GENERATED.strip()}")
    pages["index.md"] = pages["index.md"].replace(GENERATED, listed)
    pages["index.md"] += "".join(_contents(of, named) for of, named in NAVIGATION.items())
    decisions = sorted(page.removesuffix(".md") for page in own if re.match(r"decisions/\d", page))
    pages["decisions/index.md"] += _contents("", [f"/{page}" for page in decisions])
    for page, text in {**pages, **references, **_protocols()}.items():
        path = PAGES / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(DOCS / "images", PAGES / "images")
    (PAGES / "static").mkdir()
    (PAGES / "static" / "samples.css").write_text(SAMPLES_STYLE)
    return faults


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _led(text: str, page: str, sources: Mapping[str, str], faults: list[str]) -> str:
    """The text with its links rewritten to pages of the site."""
    source = sources[page]
    pages = {name: built for built, name in sources.items()}

    def lead(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        named = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if named not in pages:
            if not (ROOT / named).exists():
                faults.append(f"{source}: a link leads to {target}, which does not exist")
            return words
        return f"[{words}]({posixpath.relpath(pages[named], posixpath.dirname(page) or '.')}{anchor})"

    def picture(found: re.Match[str]) -> str:
        named = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        if not (ROOT / named).exists():
            faults.append(f"{source}: there is no picture {found[2]}")
        copied = posixpath.relpath(named, DOCS.name)
        return f"![{found[1]}]({posixpath.relpath(copied, posixpath.dirname(page) or '.')})"

    return _LINK.sub(lead, _IMAGE.sub(picture, text))


def _contents(caption: str, pages: Any) -> str:
    options = [f":caption: {caption}", ":hidden:"] if caption else [":maxdepth: 1", ":hidden:"]
    return "\n".join(("\n\n```{toctree}", *options, "", *pages, "```\n"))


def finish(site: Path) -> None:
    """Write what stands beside the pages, let the keyboard scroll what is wider than a page, and give the groups of the
    contents a level as headings, which Sphinx forgets."""
    groups = {of: [page.rpartition("<")[2].rstrip(">") for page in named] for of, named in NAVIGATION.items()}
    texts = {path.relative_to(PAGES).as_posix(): path.read_text() for path in sorted(PAGES.rglob("*.md"))}
    for page, text in texts.items():
        (site / page).write_text(text)
    (site / "llms.txt").write_text(index_text(groups, texts))
    (site / "llms-full.txt").write_text(full_text(groups, texts))
    (site / "openapi.json").write_text(json.dumps(build_document(ROUTES), indent=1, ensure_ascii=False))
    for path in site.rglob("*.html"):
        text = path.read_text()
        text = re.sub(r'<(pre|div class="table-wrapper[^"]*")>', r'<\1 tabindex="0">', text)
        path.write_text(text.replace(' role="heading">', ' role="heading" aria-level="2">'))


def broken(site: Path) -> Iterator[str]:
    """Broken links, and references to other machines."""
    for target in re.findall(r"(?m)^- \[[^\]]+\]\(([^)]+)\)", (site / "llms.txt").read_text()):
        if not (site / target).is_file():
            yield f"llms.txt leads to {target}, which does not exist"
    pages = {path: _Links.of(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, links in pages.items():
        where = path.relative_to(site)
        yield from (f"{where} loads {url}" for url in links.loaded if urlsplit(url).netloc)
        for url in (*links.loaded, *links.followed):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where} leads to {url}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where} leads to {url}: there is no such place"


class _Links(HTMLParser):
    """Collects what a page loads, where it links to, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []
        self.anchors: set[str] = set()

    @classmethod
    def of(cls, text: str) -> "_Links":
        links = cls()
        links.feed(text)
        return links

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.followed.append(given["href"])
        elif tag == "link" and given.get("rel") in LOADED:
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


def _references() -> dict[str, str]:
    """Pages generated from the programs."""
    return {
        "reference/rest.md": _rest(),
        "reference/sdk.md": "\n\n".join(_sdk()) + "\n",
        "reference/commands.md": "\n\n".join(_commands()) + "\n",
        "reference/settings.md": "\n\n".join(_settings()) + "\n",
        "reference/metrics.md": _metrics(),
        "reference/log-actions.md": _log_actions(),
    }


def _rest() -> str:
    """The page that an API serves at /docs, with the site's headings instead of its own frame and contents."""
    body = docs_page(build_document(ROUTES)).partition("</h1>")[2].partition("</body>")[0]
    body = re.sub(r"</section>|</main>|<script>.*?</script>", "", body, flags=re.DOTALL)
    body = body.replace('href="/openapi.json"', 'href="../openapi.json"')
    # A blank line would end an HTML block.
    body = "\n".join(line for line in body.splitlines() if line.strip())
    body = _REST_HEADING.sub(_heading, body)
    return f"# REST API\n\nAn API serves this page at `/docs`.\n\n{body}\n"


def _heading(found: re.Match[str]) -> str:
    level = "##" if found["chapter"] else "###"
    text = re.sub(r"<(?!/?code>)[^>]*>", "", found["text"])
    text = text.replace("<code>", "`").replace("</code>", "`")
    return f'\n\n<span id="{found["chapter"] or found["section"]}"></span>\n\n{level} {text}\n\n'


def _sdk() -> Iterator[str]:
    yield "# Python SDK"
    for module in (client, webhooks):
        yield f"## {module.__name__}\n\n{_markdown(module.__doc__)}"
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]  # fmt: skip
        for name in names:
            yield from _documented_name(name, getattr(module, name))


def _documented_name(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if not inspect.isclass(value):
        yield f"```python\n{name}{_signature(value)}\n```\n\n{_markdown(value.__doc__)}"
        return
    yield f"```python\nclass {name}{_signature(value)}\n```\n\n{_markdown(value.__doc__)}"
    for member, what in inspect.getmembers(value):
        if not member.startswith("_") and inspect.isfunction(what) and "minutehand" in what.__module__:
            kind = "async " if inspect.iscoroutinefunction(what) else ""
            yield f"#### {name}.{member}"
            yield f"```python\n{kind}{member}{_signature(what)}\n```\n\n{_markdown(what.__doc__)}"


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"(?:minutehand\.client\._\w+|minutehand\.webhooks|collections\.abc|typing)\.", "", text)
    text = text.replace("(self, ", "(").replace("(self)", "()")
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return text if len(text) < 100 else "(\n    " + ",\n    ".join(_parts(text)) + ",\n" + text[text.rindex(")") :]


def _parts(signature: str) -> Iterator[str]:
    """The parameters, split at commas outside of brackets."""
    depth, start = 0, 1
    end = signature.rindex(")")
    for position, letter in enumerate(signature[:end]):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 1:
            yield signature[start:position].strip()
            start = position + 1
    yield signature[start:end].strip()


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield "What `minutehand --help` and the help of each command say."
    tree = command_tree()
    yield from _command(tree, tree.context_class(tree, info_name="minutehand"))


def _command(command: Any, context: Any) -> Iterator[str]:
    yield f"## {context.command_path}\n\n{_markdown(command.help or command.short_help)}"
    rows = [record for one in command.params if (record := one.get_help_record(context)) is not None]
    if rows:
        yield _table(("option or argument", "meaning"), [(f"`{name}`", _quoted(text)) for name, text in rows])
    if example := getattr(command, "epilog", None):
        yield f"Example: `{example.partition('Example: ')[2]}`"
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from _command(child, child.context_class(child, info_name=name, parent=context))


def _settings() -> Iterator[str]:
    yield "# Settings"
    yield "What `minutehand config` prints as a file. The environment may give each: `MINUTEHAND_TABLE_KEY`."
    for table in TABLES:
        docs = field_docs(table.type)
        yield f"## {table.name}\n\n{_quoted(summary(table.type))}"
        rows = [
            (f"`{name}`", "" if value is None else f"`{toml(value)}`", _quoted(docs[name]))
            for name, value in defaults(table).items()
        ]
        yield _table(("key", "default", "meaning"), rows)


def _metrics() -> str:
    rows = [
        (f"`{one.name}`", one.kind.value, ", ".join(one.labels), ", ".join(one.programs), _quoted(one.meaning))
        for one in documented()
    ]
    table = _table(("metric", "type", "labels", "of", "meaning"), rows)
    return f"# Metrics\n\nWhat `minutehand metrics` prints.\n\n{table}\n"


def _log_actions() -> str:
    table = _table(
        ("action", "what it tells"), [(f"`{action}`", _quoted(told)) for action, told in log_actions.ACTIONS.items()]
    )
    return f"# Log actions\n\n{_markdown(log_actions.__doc__)}\n\n{table}\n"


def _protocols() -> dict[str, str]:
    """Docstrings that describe a package or a protocol, and their contents page."""
    pages, named = {}, []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            package = path.name == "__init__.py"
            if len(text.splitlines()) >= (2 if package else PROTOCOL_LINES):
                parts = path.relative_to(ROOT).with_suffix("").parts
                name = ".".join(parts[:-1] if package else parts)
                pages[f"protocols/{name}.md"] = f"# {name}\n\n{_markdown(text)}\n"
                named.append(name)
    about = "# Protocols\n\nThe docstrings of packages, and of modules that have a protocol of their own.\n"
    listed = "".join(f"\n- [{name}]({name}.md)" for name in named)
    return {"protocols/index.md": f"{about}{listed}\n{_contents('', named)}", **pages}


def _markdown(docstring: str | None) -> str:
    """A docstring as Markdown: with a blank line before each list, and with angle brackets escaped."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r"(?m)^((?! *(?:[-*] |\d+\. |\|))\S.*\n)(?= {0,2}(?:[-*] |\d+\. ))", r"\1\n", text)
    return "\n".join(line if line.startswith("    ") else _quoted(line) for line in text.splitlines())


def _quoted(text: str) -> str:
    """Text with angle brackets escaped outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if number % 2 else escape(part, quote=False) for number, part in enumerate(parts))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(_cell(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
