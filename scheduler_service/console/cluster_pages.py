"""What an operator sees first: are calls made, by which nodes, and what is overdue."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from scheduler_service.console.operations import part
from scheduler_service.console.pages import Page, redirect
from scheduler_service.console.rendering import duration, rate

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
    calls = await page.get("/v1/cluster/calls")
    backlog = (await page.get("/v1/cluster/backlog", limit=CLIENTS_SHOWN))["items"]
    return page.render(
        "cluster.html", cluster=cluster, calls=calls, backlog=backlog, sentence=sentence_of(cluster, calls, backlog)
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


def sentence_of(cluster: Mapping[str, Any], calls: Mapping[str, Any], backlog: Sequence[Mapping[str, Any]]) -> Sentence:
    """The worst that is known comes first. Pure."""
    pollers, nodes = cluster["pollers"], cluster["nodes"]
    live = [node["node_id"] for node in nodes if node["state"] == "live"]
    unowned = pollers["total"] - pollers["owned"]
    overdue = sum(one["overdue"]["rows"] for one in backlog)
    if cluster["not_calling"]:
        return Sentence(
            "bad", "No calls are made.", f"{cluster['not_calling'][:1].upper()}{cluster['not_calling'][1:]}."
        )
    if not live:
        return Sentence("bad", "No node is live, so no call would be made.", "Start one: minutehand node")
    per_second, late = calls["per_second"], calls["late"][2]["seconds"]
    made = (
        f"Calls are made: {rate(per_second)} a second"
        + (f", 99 % within {duration(late)}" if late is not None else "")
        + "."
    )
    if unowned:
        return Sentence(
            "warn",
            f"{unowned:,} of {pollers['total']:,} pollers have no owner: their calls are late.",
            f"{made} Nodes take them over within seconds; if they don't, start more nodes.",
        )
    if overdue:
        return Sentence(
            "warn", f"{overdue:,} calls are overdue.", f"{made} Below is whose they are, and what holds them."
        )
    if not per_second:
        return Sentence("good", "Calls are made; none was due within the last minute.")
    return Sentence("good", made)
