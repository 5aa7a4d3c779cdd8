"""What an operator sees first: are calls made, by which nodes, and what is overdue."""

from typing import Any, NamedTuple

from aiohttp import web

from scheduler_service.console.operations import part
from scheduler_service.console.pages import Page, redirect

CLIENTS_SHOWN = 50


class Sentence(NamedTuple):
    """How it goes, in one sentence. `tone`: good, warn or bad. `advice`: what to do; None: nothing."""

    tone: str
    text: str
    advice: str | None = None


async def show_start(page: Page) -> web.Response:
    """Leads to the page that its caller should see first."""
    client_id = page.visitor.principal.client_id
    return redirect("/console/cluster" if client_id is None else f"/console/clients/{part(client_id)}")


async def show_cluster(page: Page) -> web.Response:
    cluster = await page.get("/v1/cluster")
    backlog = await page.get("/v1/cluster/backlog", limit=CLIENTS_SHOWN)
    return page.render(
        "cluster.html", cluster=cluster, backlog=backlog["items"], sentence=sentence_of(cluster, backlog["items"])
    )


async def drain_node(page: Page) -> web.Response:
    node_id = page.form.get("node_id", "")
    force = "?force=true" if page.form.get("force") else ""
    await page.send("POST", f"/v1/cluster/nodes/{part(node_id)}:drain{force}")
    return page.done("/console/cluster", f"{node_id} hands its pollers over, and takes no new ones.")


async def undrain_node(page: Page) -> web.Response:
    node_id = page.form.get("node_id", "")
    await page.send("POST", f"/v1/cluster/nodes/{part(node_id)}:undrain")
    return page.done("/console/cluster", f"{node_id} takes its share of pollers again.")


def sentence_of(cluster: dict[str, Any], backlog: list[dict[str, Any]]) -> Sentence:
    """Pure. The worst that is known comes first."""
    pollers, nodes = cluster["pollers"], cluster["nodes"]
    alive = [node for node in nodes if node["state"] == "active"]
    unowned = pollers["total"] - pollers["owned"]
    overdue = sum(one["overdue"]["rows"] for one in backlog)
    if not alive:
        return Sentence("bad", "No calls are made: no node is alive.", "Start nodes: minutehand node")
    if cluster["not_calling"]:
        return Sentence("bad", f"No calls are made: {cluster['not_calling']}.", "See the runbook.")
    if unowned:
        return Sentence(
            "warn",
            f"{unowned:,} of {pollers['total']:,} pollers have no owner: their calls are late.",
            "Nodes take them over within seconds; if not, start more nodes.",
        )
    if overdue:
        return Sentence(
            "warn",
            f"Calls are made, and {overdue:,} are overdue.",
            "The backlog below says whose, and what holds them.",
        )
    return Sentence(
        "good", f"Calls are made by {len(alive)} node{'s' if len(alive) != 1 else ''}, and none is overdue."
    )
