"""The OpenAPI document as one self-contained page: no network, and a script for search, contents and samples only.

Anchors: `#OPERATION_ID`, `#tag-TAG`, `#schema-NAME`, `#problem-KIND`, `#callback`.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from scheduler_service.api.http.html import inline, page, prose
from scheduler_service.api.openapi.schema_html import schema_rows, schema_text
from scheduler_service.api.problems import CONTENT_TYPE, KINDS, Kind

Document = Mapping[str, Any]
_PROBLEMS = "/problems/"


def docs_page(document: Document) -> str:
    """The page for a document of `build_document`."""
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} API</h1>",
        prose(info["description"]),
        '<p><a href="/openapi.json">The same as OpenAPI 3.1</a></p>',
        _security(document),
    ]
    for tag in document["tags"]:
        parts.append(f'<h2 id="tag-{tag["name"]}">{escape(tag["name"])}</h2>\n{prose(tag["description"])}')
        parts += [_operation(document, *found) for found in _operations(document) if tag["name"] in found[2]["tags"]]
    parts += [_problems(document), _schemas(document)]
    return page(f"{info['title']} API", "\n".join(parts), beside=_contents(document))


def llms_text(document: Document) -> str:
    """The operations as Markdown, in the form of https://llmstxt.org/: a title, a summary, and sections of links."""
    info = document["info"]
    parts = [
        f"# {info['title']}",
        "> " + info["description"].split("\n\n")[0],
        "\n".join(info["description"].split("\n\n")[1:]),
    ]
    parts.append(
        "- [OpenAPI 3.1](/openapi.json): every operation with schemas, examples, samples for curl, Python, TypeScript"
    )
    for tag in document["tags"]:
        links = "\n".join(
            f"- [{operation['summary']}](/docs#{operation['operationId']}): `{method} {path}`"
            for method, path, operation in _operations(document)
            if tag["name"] in operation["tags"]
        )
        parts.append(f"## {tag['name']}\n\n{tag['description']}\n\n{links}")
    return "\n\n".join(parts) + "\n"


def _operations(document: Document) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation
    for methods in document["webhooks"].values():
        for method, operation in methods.items():
            yield method.upper(), "your URL", operation


def _resolve(document: Document, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that a `$ref` points to; other objects as they are given."""
    found: Any = value
    if (reference := value.get("$ref")) is not None:
        found = document
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]
    resolved: Mapping[str, Any] = found
    return resolved


def _security(document: Document) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{inline(scheme['description'])}</td></tr>\n"
        for name, scheme in document["components"]["securitySchemes"].items()
    )
    return f'<h2 id="keys-needed">Keys</h2>\n{_table(rows)}'


def _contents(document: Document) -> str:
    """Operations by their tags, then what is at the end of the page; its long lists are closed until one looks."""
    parts = [
        '<nav aria-label="Contents" id="contents" tabindex="-1">',
        '<input id="search" type="search" placeholder="Search operations" aria-label="Search operations" hidden>',
        '<p class="dim" id="found" role="status"></p>',
    ]
    known = list(_operations(document))
    for tag in document["tags"]:
        items = "".join(
            f'<li data-words="{escape(" ".join((method, path, operation["operationId"])))}">'
            f'<a href="#{operation["operationId"]}">{inline(operation["summary"])}</a></li>\n'
            for method, path, operation in known
            if tag["name"] in operation["tags"]
        )
        parts.append(f"<details open><summary>{escape(tag['name'])}</summary>\n<ul>\n{items}</ul></details>")
    problems = "".join(
        f'<li data-words="{kind} {one.status}"><a href="#problem-{kind}">{inline(one.title)}</a></li>\n'
        for kind, one in KINDS.items()
    )
    schemas = "".join(
        f'<li><a href="#schema-{name}">{escape(name)}</a></li>\n' for name in document["components"]["schemas"]
    )
    for title, items in (("problems", problems), ("schemas", schemas)):
        parts.append(f"<details><summary>{title}</summary>\n<ul>\n{items}</ul></details>")
    return "\n".join((*parts, "</nav>", '<a class="up" href="#contents">Contents</a>'))


def _operation(document: Document, method: str, path: str, operation: Mapping[str, Any]) -> str:
    id_ = operation["operationId"]
    parts = [
        f'<section class="operation" id="{id_}">',
        f'<h3><a href="#{id_}">{inline(operation["summary"])}</a></h3>',
        f'<p><span class="method">{method}</span><code>{escape(path)}</code></p>',
        prose(operation["description"]),
        _samples(operation),
        _parameters(document, operation),
    ]
    if (body := operation.get("requestBody")) is not None:
        optional = "" if body.get("required") else ' <span class="dim">may be left out</span>'
        parts.append(f"<h4>Body{optional}</h4>{inline(body.get('description', ''))}")
        parts += [_content(media, content) for media, content in body["content"].items()]
    parts.append("<h4>Answers</h4>")
    parts += [
        _answer(document, status, _resolve(document, answer)) for status, answer in operation["responses"].items()
    ]
    parts.append("</section>")
    return "\n".join(part for part in parts if part)


def _samples(operation: Mapping[str, Any]) -> str:
    """A tab for each language: radio buttons, then as many blocks in the same order."""
    id_, samples = operation["operationId"], operation.get("x-codeSamples", ())
    tabs = "".join(
        f'<input type="radio" name="sample-{id_}" id="sample-{id_}-{number}" data-language="{escape(sample["label"])}"'
        f'{"" if number else " checked"}><label for="sample-{id_}-{number}">{escape(sample["label"])}</label>\n'
        for number, sample in enumerate(samples)
    )
    blocks = "\n".join(_code(sample["source"]) for sample in samples)
    return f'<fieldset class="samples"><legend>Samples</legend>\n{tabs}{blocks}</fieldset>' if samples else ""


def _code(text: str) -> str:
    """A block that the keyboard can scroll."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def _table(rows: str) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    return f'<div class="wide" tabindex="0"><table>\n{rows}</table></div>'


def _parameters(document: Document, operation: Mapping[str, Any]) -> str:
    parameters = [_resolve(document, parameter) for parameter in operation["parameters"]]
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td>"
        f"<td>{one['in']}{', required' if one['required'] and one['in'] != 'path' else ''}</td>"
        f"<td>{schema_text(one['schema'])}</td><td>{inline(one['description'])}</td></tr>\n"
        for one in parameters
    )
    head = "<tr><th>Name<th>In<th>Type<th>Meaning</tr>\n"
    return f"<h4>Parameters</h4>\n{_table(head + rows)}"


def _content(media: str, content: Mapping[str, Any]) -> str:
    examples = [example["value"] for example in content.get("examples", {}).values()]
    if "example" in content:
        examples.append(content["example"])
    shown = "".join(f"\n{_code(_text(example))}" for example in examples)
    return f'<p><span class="dim">{escape(media)}</span> {schema_text(content["schema"])}</p>{shown}'


def _text(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)


def _answer(document: Document, status: str, answer: Mapping[str, Any]) -> str:
    content = answer.get("content", {})
    kinds = [kind for media, body in content.items() for kind in _kinds(media, body)]
    if kinds:
        links = ", ".join(f'<a href="#problem-{kind}">{kind}</a>' for kind in kinds)
        return f"<p><strong>{status}</strong> {links}</p>"
    headers = ", ".join(f"<code>{escape(name)}</code>" for name in answer.get("headers", {}) if name != "X-Request-Id")
    with_headers = f' <span class="dim">with</span> {headers}' if headers else ""
    bodies = "\n".join(_content(media, body) for media, body in content.items())
    return f"<p><strong>{status}</strong> {inline(answer['description'])}{with_headers}</p>\n{bodies}"


def _kinds(media: str, body: Mapping[str, Any]) -> list[str]:
    """The kinds of problems that an answer may be; the examples of problems have the names of their kinds."""
    return list(body["examples"]) if media == CONTENT_TYPE else []


def _problems(document: Document) -> str:
    answering: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for _, _, operation in _operations(document):
        for answer in operation["responses"].values():
            for media, body in _resolve(document, answer).get("content", {}).items():
                for kind in _kinds(media, body):
                    answering[kind].append(operation["operationId"])
    # `malformed` and `internal` are problems of every operation, so the longest list is that of all.
    everywhere = max(len(ids) for ids in answering.values())
    parts = ['<h2 id="problems">Problems</h2>']
    for kind, known in KINDS.items():
        ids = answering[kind]
        links = "all" if len(ids) == everywhere else ", ".join(f'<a href="#{id_}">{id_}</a>' for id_ in ids) or "none"
        parts.append(
            f'<section id="problem-{kind}"><h3>{inline(known.title)}</h3>\n'
            f"<p>{known.status} <code>{_PROBLEMS}{kind}</code></p>\n"
            f'<p>{inline(known.advice)}</p>\n<p class="dim">Operations: {links}</p></section>'
        )
    return "\n".join(parts)


def _schemas(document: Document) -> str:
    parts = ['<h2 id="schemas">Schemas</h2>']
    for name, schema in document["components"]["schemas"].items():
        rows = "".join(schema_rows(schema))
        table = _table(f"<tr><th>Field<th>Type<th>Meaning</tr>\n{rows}") if rows else schema_text(schema)
        description = prose(schema.get("description", ""))
        parts.append(f'<section id="schema-{name}"><h3>{escape(name)}</h3>\n{description}{table}</section>')
    return "\n".join(parts)


def problem_text(kind: Kind) -> str:
    return f"{kind.title}\n\nHTTP status {kind.status}. {kind.advice}\n"


def problem_html(name: str, kind: Kind) -> str:
    body = (
        f"<h1>{inline(kind.title)}</h1>\n<p>{inline(kind.advice)}</p>\n"
        f'<p class="dim">HTTP status {kind.status}, <code>/problems/{name}</code></p>\n'
        f'<p><a href="/docs#problem-{name}">What can answer it</a></p>'
    )
    return page(f"{kind.title} – Minutehand", body)
