"""The addresses of the console. All are open to the endpoint: a page has a session or leads to the login, and what it
asks of the API is judged there (`operations`)."""

from typing import Final, NamedTuple

from aiohttp import web

from scheduler_service.api.app import RoutedWire
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.html import HTML
from scheduler_service.api.http.route import SERVER, Handler, RequestContext, Route
from scheduler_service.api.http.wire import WireForm
from scheduler_service.api.settings import ApiSettings
from scheduler_service.console import (
    access_pages,
    admin_key_pages,
    audit_pages,
    book_pages,
    client_pages,
    cluster_pages,
    cron_act_pages,
    cron_pages,
    dead_letter_pages,
    destination_pages,
    event_pages,
    reconciliation_pages,
    schedule_form_pages,
    schedule_pages,
    settings_pages,
    subscription_pages,
    trial_pages,
    window_pages,
)
from scheduler_service.console.compression import takes_gzip
from scheduler_service.console.cookies import Cookies
from scheduler_service.console.openid_pages import BACK, BEGIN, OpenIdPages
from scheduler_service.console.pages import LOGIN, LOGOUT, PAGE_HEADERS, PageHandler, page, problem_page
from scheduler_service.console.rendering import static_file
from scheduler_service.console.sessions import LoginPages
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.domain.errors import NotFound

PREFIX: Final = "/console"
FORM: Final = WireForm(name="the console", prefix=PREFIX, refusal=problem_page, headers=PAGE_HEADERS)
CLIENT: Final = "/console/clients/{client_id}"
SCHEDULE: Final = CLIENT + "/schedules/{schedule_id}"
CRON: Final = CLIENT + "/crons/{cron_id}"
DESTINATION: Final = CLIENT + "/destinations/{destination}"


def console_wire(settings: ConsoleSettings, api: ApiSettings) -> list[RoutedWire]:
    """The console's routes, to be served beside the API's; none if it is off."""
    return [(FORM, routes_of(LoginPages(settings, tls=api.tls_cert_file is not None)))] if settings.on else []


class PageRoute(NamedTuple):
    """A page, or what a form of it does, before it is known by which cookies its callers have sessions."""

    method: str
    path: str
    handler: PageHandler
    summary: str

    def behind(self, cookies: Cookies) -> Route:
        return _open(self.method, self.path, page(self.handler, cookies), self.summary)


def routes_of(login: LoginPages) -> tuple[Route, ...]:
    return (
        _open("GET", LOGIN, login.show_login, "Ask for a key"),
        _open("POST", LOGIN, login.log_in, "Exchange a key for a session"),
        _open("GET", "/console/static/{static_version}/{static_name}", get_static, "A file that pages load"),
        *_openid_routes(login.openid),
        *(one.behind(login.cookies) for one in (_page("POST", LOGOUT, login.log_out, "End the session"), *PAGES)),
    )


def _openid_routes(pages: OpenIdPages | None) -> tuple[Route, ...]:
    if pages is None:
        return ()
    return (
        _open("GET", BEGIN, pages.begin_oidc, "Log in at the OpenID provider"),
        _open("GET", BACK, pages.end_oidc, "Come back from there"),
    )


async def get_static(context: RequestContext) -> web.Response:
    """A file of this version may be kept for good: its address changes with its content."""
    name = context.path("static_name")
    file = static_file(name)
    if file is None:
        raise NotFound("there is no such file")
    headers = {
        **SERVER,
        "Content-Type": file.content_type,
        "Cache-Control": "public, max-age=31536000, immutable",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Vary": "Accept-Encoding",
    }
    if not takes_gzip(context.request):
        return web.Response(body=file.body, headers=headers)
    return web.Response(body=file.gzipped, headers={**headers, "Content-Encoding": "gzip"})


def _open(method: str, path: str, handler: Handler, summary: str) -> Route:
    return Route(method=method, path=path, access=Access.OPEN, handler=handler, summary=summary, media=(HTML,))


def _page(method: str, path: str, handler: PageHandler, summary: str) -> PageRoute:
    return PageRoute(method, path, handler, summary)


PAGES: Final = (
    _page("GET", PREFIX, cluster_pages.show_start, "The caller's first page"),
    _page("GET", "/console/cluster", cluster_pages.show_cluster, "Whether calls are made, nodes, what is overdue"),
    _page("POST", "/console/cluster/nodes:drain", cluster_pages.drain_node, "Drain a node"),
    _page("POST", "/console/cluster/nodes:undrain", cluster_pages.undrain_node, "Undrain a node"),
    _page("POST", "/console/cluster/overdue-rate", cluster_pages.put_overdue_rate, "Limit how fast overdue calls go"),
    _page("GET", "/console/forecast", book_pages.show_forecast, "The calls of the next day against capacity"),
    _page("GET", "/console/books", book_pages.show_cluster_books, "Reconciliations under way and the latest audits"),
    _page("GET", "/console/audit-log", audit_pages.show_audit_log, "Who changed what"),
    _page("GET", "/console/admin-keys", admin_key_pages.show_admin_keys, "Administrators' keys"),
    _page("POST", "/console/admin-keys", admin_key_pages.change_admin_keys, "Make or revoke an administrator's key"),
    _page("GET", "/console/clients", client_pages.list_clients, "All clients"),
    _page("POST", "/console/clients", client_pages.register_client, "Register a client"),
    _page("GET", CLIENT, client_pages.show_client, "A client at a glance"),
    _page("POST", CLIENT, client_pages.act_on_client, "Suspend, resume, pause or unpause a client"),
    _page("GET", CLIENT + "/events", event_pages.show_events, "A client's events, as they happen"),
    _page("POST", CLIENT + "/events", event_pages.switch_feed_on, "Keep a client's events"),
    _page("GET", CLIENT + "/events/stream", event_pages.stream_events, "A client's events as a stream"),
    _page("GET", CLIENT + "/books", book_pages.show_books, "A client's balance, usage and audits"),
    _page("GET", CLIENT + "/forecast", book_pages.show_forecast, "A client's calls of the next day"),
    _page("GET", CLIENT + "/audit-log", audit_pages.show_audit_log, "Who changed what of a client"),
    _page("GET", CLIENT + "/pollers", client_pages.show_pollers, "A client's pollers and their owners"),
    _page("GET", CLIENT + "/reconciliations", reconciliation_pages.list_reconciliations, "A client's reconciliations"),
    _page("POST", CLIENT + "/reconciliations", reconciliation_pages.begin_reconciliation, "Begin a reconciliation"),
    _page(
        "GET",
        CLIENT + "/reconciliations/{reconciliation_id}",
        reconciliation_pages.show_reconciliation,
        "How far a reconciliation is",
    ),
    _page(
        "POST",
        CLIENT + "/reconciliations/{reconciliation_id}",
        reconciliation_pages.stop_reconciliation,
        "Stop a reconciliation",
    ),
    _page("GET", CLIENT + "/schedules", schedule_pages.list_schedules, "Find schedules"),
    _page("GET", CLIENT + "/schedules:new", schedule_form_pages.new_schedule, "The form of a new schedule"),
    _page("POST", CLIENT + "/schedules:new", schedule_form_pages.create_schedule, "Create a schedule"),
    _page("GET", CLIENT + "/schedules:window", window_pages.show_window, "How many schedules filters find"),
    _page("POST", CLIENT + "/schedules:window", window_pages.act_on_window, "Cancel or reschedule all of them"),
    _page("GET", SCHEDULE + ":edit", schedule_form_pages.edit_schedule, "The form of a schedule"),
    _page("POST", SCHEDULE + ":edit", schedule_form_pages.update_schedule, "Change a schedule that waits"),
    _page("GET", SCHEDULE, schedule_pages.show_schedule, "What became of a schedule"),
    _page("POST", SCHEDULE, schedule_pages.change_schedule, "Change a schedule"),
    _page("GET", CLIENT + "/dead-letters", dead_letter_pages.list_dead_letters, "Find dead letters"),
    _page("POST", CLIENT + "/dead-letters", dead_letter_pages.act_on_dead_letters, "Redeliver or acknowledge some"),
    _page("GET", CLIENT + "/keys", access_pages.show_access, "A client's keys and signing secrets"),
    _page("POST", CLIENT + "/keys", access_pages.change_access, "Make or end a key or a signing secret"),
    _page("GET", CLIENT + "/settings", settings_pages.show_settings, "A client's settings"),
    _page("POST", CLIENT + "/settings", settings_pages.change_settings, "Change a client's settings"),
    _page("GET", CLIENT + "/subscriptions", subscription_pages.list_subscriptions, "A client's subscriptions"),
    _page("POST", CLIENT + "/subscriptions", subscription_pages.change_subscription, "Put or delete a subscription"),
    _page("GET", CLIENT + "/trial-call", trial_pages.show_trial, "The form of a trial call"),
    _page("POST", CLIENT + "/trial-call", trial_pages.call_trial, "Send a trial call"),
    _page("GET", CLIENT + "/crons", cron_pages.list_crons, "A client's crons"),
    _page("GET", CLIENT + "/crons:calendar", cron_pages.show_calendar, "A month of a client's crons"),
    _page("GET", CLIENT + "/crons:new", cron_pages.new_cron, "The form of a new cron"),
    _page("POST", CLIENT + "/crons:new", cron_pages.create_cron, "Create a cron"),
    _page("GET", CLIENT + "/crons:labelled", cron_act_pages.show_labelled, "The form of crons with a label"),
    _page("POST", CLIENT + "/crons:labelled", cron_act_pages.change_labelled, "Pause or resume crons with a label"),
    _page("GET", CRON + ":backfill", cron_act_pages.show_backfill, "The form of a cron's missed fires"),
    _page("POST", CRON + ":backfill", cron_act_pages.backfill_cron, "Make missed fires of a cron"),
    _page("GET", CRON, cron_pages.show_cron, "When a cron fires, and what became of its runs"),
    _page("POST", CRON, cron_pages.change_cron, "Pause, resume, run or delete a cron"),
    _page("GET", CRON + ":edit", cron_pages.edit_cron, "The form of a cron"),
    _page("POST", CRON + ":edit", cron_pages.replace_cron, "Change a cron"),
    _page("GET", CLIENT + "/destinations", destination_pages.list_destinations, "A client's destinations"),
    _page("GET", CLIENT + "/destinations:new", destination_pages.new_destination, "The form of a new destination"),
    _page("POST", CLIENT + "/destinations:new", destination_pages.create_destination, "Create a destination"),
    _page("GET", DESTINATION, destination_pages.show_destination, "How calls to a destination go"),
    _page("POST", DESTINATION, destination_pages.change_destination, "Pause, resume or delete a destination"),
    _page("GET", DESTINATION + ":edit", destination_pages.edit_destination, "The form of a destination"),
    _page("POST", DESTINATION + ":edit", destination_pages.replace_destination, "Change a destination"),
)
