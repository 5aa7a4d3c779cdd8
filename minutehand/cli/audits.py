"""`minutehand audits`: the results of audits of a client's books, or of all clients'."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from minutehand.cli.options import DEFAULT_URL, AsJson, KeyText, Url, connect, limit_of
from minutehand.cli.output import at_most, print_json, print_table

if TYPE_CHECKING:
    from minutehand.client import Audit, LatestAudit, LatestAudits

app = typer.Typer()


_COLUMNS = ("AUDITED", "FROM", "TO", "ACCEPTED", "OPEN", "FINDINGS", "REPAIRED")


@app.command(epilog="Example: minutehand audits shop --limit 5")
def audits(
    client_id: Annotated[
        str | None,
        typer.Argument(metavar="CLIENT", help="The client's id. [default: all clients]", show_default=False),
    ] = None,
    limit: Annotated[int, limit_of("audits")] = 20,
    url: Url = DEFAULT_URL,
    key: KeyText = None,
    as_json: AsJson = False,
) -> None:
    """List what audits of a client's books found, newest first; --json shows each finding.

    Of all clients the newest audit of each is shown, those with most findings first, 100 at most, which needs an
    administrator's key. `minutehand spark run audit_books` makes audits.
    """
    with connect(url, key) as api:
        if client_id is None:
            _show_latest(api.latest_audits(page_size=min(limit, 100)), as_json)
            return
        found, more = at_most(limit, api.client(client_id).audits(page_size=min(limit + 1, 100)))
    if as_json:
        print_json(found, more=more)
        return
    print_table(_COLUMNS, [_line(audit) for audit in found], yielding={"FINDINGS"}, more=more)


def _show_latest(found: "LatestAudits", as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if found.items:
        rows = [(audit.client_id, *_line(audit)) for audit in found.items]
        more = found.next_cursor is not None
        print_table(("CLIENT", *_COLUMNS), rows, yielding={"FINDINGS"}, more=more)
    standing = (
        "No run over all clients was made"
        if found.findings_standing is None
        else (f"{found.findings_standing:,} findings of runs over all clients stand")
    )
    typer.echo(f"{found.clients:,} clients have an audit, {found.clients_unaudited:,} have none. {standing}.")
    if found.clients_left_out:
        typer.echo(f"{found.clients_left_out:,} clients are left out: there are too many.")


def _line(audit: "Audit | LatestAudit") -> Sequence[object]:
    return (
        audit.audited_at,
        audit.start,
        audit.end,
        f"{audit.counts.accepted:,}",
        f"{audit.counts.open:,}",
        _findings(audit),
        f"{sum(audit.repaired.values()):,}",
    )


def _findings(audit: "Audit | LatestAudit") -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(audit.findings.items())) or "none"
