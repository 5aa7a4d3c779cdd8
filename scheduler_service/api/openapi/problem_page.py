"""The page of one type of problem."""

from scheduler_service.api.http.html import inline, page
from scheduler_service.api.problems import Kind


def problem_text(kind: Kind) -> str:
    return f"{kind.title}\n\nHTTP status {kind.status}. {kind.advice}\n"


def problem_html(name: str, kind: Kind) -> str:
    body = (
        f"<h1>{inline(kind.title)}</h1>\n<p>{inline(kind.advice)}</p>\n"
        f'<p class="dim">HTTP status {kind.status}, <code>/problems/{name}</code></p>\n'
        f'<p><a href="/docs#problem-{name}">What can answer it</a></p>'
    )
    return page(f"{kind.title} – Minutehand", body)
