"""Attempts that somebody looks at: the same handle with every option alike, and what libcurl tells of its work.

Each has a connection of its own, so that what is told of connecting is always of this attempt. Costs more than plain
ones; the engines of nodes make none of them.
"""

from typing import Any, Final

import msgspec
import pycurl

from poller_cluster.delivery.attempt import Attempt
from poller_cluster.delivery.inflow import Inflows
from poller_cluster.delivery.policy import NetworkPolicy
from poller_cluster.delivery.result import AttemptResult, Observation
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.sight import MAX_HEADER_BYTES, MAX_HEADERS, socket_name
from poller_cluster.delivery.transfer import Transfer

_VERSIONS: Final = {
    pycurl.CURL_HTTP_VERSION_1_0: "1.0",
    pycurl.CURL_HTTP_VERSION_1_1: "1.1",
    pycurl.CURL_HTTP_VERSION_2_0: "2",
}


class ObservedTransfer(Transfer):
    """A transfer whose results carry an Observation, and an excerpt whatever the status."""

    __slots__ = ("_addresses", "_header_bytes", "_received_headers", "_resolved", "_sent_headers")

    def _constant_options(self, settings: DeliverySettings) -> dict[int, Any]:
        return super()._constant_options(settings) | {
            pycurl.FRESH_CONNECT: 1,
            pycurl.FORBID_REUSE: 1,
            pycurl.DEBUGFUNCTION: self._hear_work,
            pycurl.VERBOSE: 1,
        }

    def _begin(self) -> None:
        super()._begin()
        self._addresses: list[str] = []
        self._resolved = False
        self._sent_headers: list[tuple[str, str]] = []
        self._received_headers: list[tuple[str, str]] = []
        self._header_bytes = 0

    def prepare(self, attempt: Attempt) -> None:
        super().prepare(attempt)
        self._sent_headers = list(attempt.request.headers)

    def _open_socket(self, purpose: int, address: Any) -> int:
        host, port = address.addr[:2]
        opened = super()._open_socket(purpose, address)
        self._resolved = True
        if opened != pycurl.SOCKET_BAD:
            self._addresses.append(socket_name(host, port))
        return opened

    def _hear_header(self, line: bytes) -> int | None:
        if super()._hear_header(line) is not None:
            return 0
        text = line.decode("latin-1").rstrip("\r\n")
        if text.startswith("HTTP/"):
            self._received_headers.clear()
            self._header_bytes = 0
            return None
        name, colon, value = text.partition(":")
        self._header_bytes += len(line)
        if colon and len(self._received_headers) < MAX_HEADERS and self._header_bytes <= MAX_HEADER_BYTES:
            self._received_headers.append((name, value.strip()))
        return None

    def _hear_work(self, kind: int, data: bytes) -> None:
        if kind == pycurl.INFOTYPE_HEADER_OUT:
            lines = data.decode("latin-1").split("\r\n")[1:]
            self._sent_headers = [
                (name, value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon
            ]

    def result(self, code: int, message: str, *, now: float) -> AttemptResult:
        result = super().result(code, message, now=now)
        waited = self.waited_seconds

        def since_start(info: int) -> float | None:
            seconds = get(info)
            return seconds + waited if seconds else None

        get, answered = self.curl.getinfo, self.curl.getinfo(pycurl.RESPONSE_CODE) > 0
        connected = get(pycurl.PRIMARY_IP) if self.attempt.sends or get(pycurl.CONNECT_TIME) > 0 else ""
        return msgspec.structs.replace(
            result,
            excerpt=b"".join(self._chunks).decode(errors="replace"),
            observation=Observation(
                headers=tuple(self._sent_headers),
                addresses=tuple(self._addresses),
                connected_to=socket_name(connected, get(pycurl.PRIMARY_PORT)) if connected else None,
                resolved_seconds=since_start(pycurl.NAMELOOKUP_TIME) if self._resolved else None,
                connected_seconds=since_start(pycurl.CONNECT_TIME),
                secured_seconds=since_start(pycurl.APPCONNECT_TIME),
                first_byte_seconds=since_start(pycurl.STARTTRANSFER_TIME) if answered else None,
                http_version=_VERSIONS.get(get(pycurl.INFO_HTTP_VERSION)) if answered else None,
                response_headers=tuple(self._received_headers),
            ),
        )


def transfer_of(*, settings: DeliverySettings, policy: NetworkPolicy, inflows: Inflows, observed: bool) -> Transfer:
    return (ObservedTransfer if observed else Transfer)(settings=settings, policy=policy, inflows=inflows)
