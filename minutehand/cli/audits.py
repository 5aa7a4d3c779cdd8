"""`minutehand audits`: the results of audits of a client's books."""

from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, ClientId, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import Audit

app = typer.Typer()


@app.command(epilog="Example: minutehand audits shop --limit 5")
def audits(
    client_id: ClientId,
    limit: Annotated[int, limit_of("audits")] = 20,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List what audits of a client's books found, newest first; --json shows each finding.

    `minutehand spark run audit_books` makes them.
    """
    with connect(url, key) as api:
        found, more = at_most(limit, api.client(client_id).audits(page_size=min(limit + 1, 100)))
    if as_json:
        print_json(found, more=more)
        return
    rows = [
        (
            audit.audited_at,
            audit.start,
            audit.end,
            f"{audit.counts.accepted:,}",
            f"{audit.counts.open:,}",
            _findings(audit),
            f"{sum(audit.repaired.values()):,}",
        )
        for audit in found
    ]
    print_table(
        ("AUDITED", "FROM", "TO", "ACCEPTED", "OPEN", "FINDINGS", "REPAIRED"), rows, yielding={"FINDINGS"}, more=more
    )


def _findings(audit: "Audit") -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(audit.findings.items())) or "none"
