"""What an operator sees first: are calls made, by which nodes, and what is overdue."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.findings import findings_of, sentence_of
from scheduler_service.console.forms import number_of
from scheduler_service.console.operations import OperationRefused, OperationUnsuccessful, part
from scheduler_service.console.pages import Page, redirect

CLIENTS_SHOWN: Final = 50
OVERDUE_RATE: Final = "/v1/cluster/overdue-rate"


async def show_start(page: Page) -> web.Response:
    """Leads to the page that its caller should see first."""
    client_id = page.visitor.principal.client_id
    return redirect("/console/cluster" if client_id is None else f"/console/clients/{part(client_id)}")


async def show_cluster(page: Page) -> web.Response:
    return await _cluster(page)


async def _cluster(page: Page, *, error: OperationRefused | None = None) -> web.Response:
    cluster = await page.get("/v1/cluster")
    calls = await page.get("/v1/cluster/calls")
    backlog = await page.get("/v1/cluster/backlog", limit=CLIENTS_SHOWN)
    overdue_rate = (await page.get(OVERDUE_RATE))["overdue_per_second"]
    unready = await _unready(page)
    return page.render(
        "cluster.html",
        cluster=cluster,
        calls=calls,
        backlog=backlog["items"],
        oldest=backlog["overdue"]["oldest"],
        sentence=sentence_of(cluster, calls, backlog["items"], unready=unready),
        more=findings_of(cluster, calls, backlog["items"], unready=unready)[1:],
        overdue_rate=overdue_rate,
        error=error,
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


async def put_overdue_rate(page: Page) -> web.Response:
    """An empty field: as fast as limits permit."""
    text = page.form.get("overdue_per_second", "").strip()
    if not text:
        await page.send("DELETE", OVERDUE_RATE)
        return page.done("/console/cluster", "Overdue calls are made as fast as limits permit.")
    try:
        await page.send("PUT", OVERDUE_RATE, {"overdue_per_second": number_of(text)})
    except OperationRefused as error:
        return await _cluster(page, error=error)
    return page.done("/console/cluster", f"At most {text} overdue calls are made a second, by all nodes together.")


async def _unready(page: Page) -> list[Mapping[str, Any]]:
    """Why this API can't do all of its work."""
    try:
        await page.get("/readyz", shown=False)
    except OperationUnsuccessful as error:
        return list(error.problem.get("reasons", ()))
    return []
