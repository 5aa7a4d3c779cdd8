"""One reusable libcurl handle and the attempt it is making."""

import re
import socket
from typing import Any

import pycurl

from poller_cluster.delivery.attempt import Attempt, MayStart
from poller_cluster.delivery.inflow import Ends, Inflow, Inflows
from poller_cluster.delivery.outcome import WEIRD_SERVER_REPLY, Ending, judge
from poller_cluster.delivery.policy import NetworkPolicy, Refusal, judge_socket_address
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target
from poller_cluster.delivery.tls import default_authorities
from poller_cluster.delivery.wire import sends_body

_SUPPRESSED = ("Accept:", "Content-Type:", "Expect:", "User-Agent:")
"""Keeps libcurl from adding its own; a user's header of that name is sent all the same."""
_LARGE_BODY = 16_384
_FIRST_FINAL_STATUS = 200
_STATUS_LINE = re.compile(rb"HTTP/(?:1\.[01]|2)[ \t]([0-9]{3})(?![0-9])")
"""libcurl believes the first three of more digits, and takes `http/1.1 500` for the 200 of a server that is no HTTP."""
_SWITCHING_PROTOCOLS = b"101"
_DISALLOW_USERNAME_IN_URL = 278
"""A CURLOPT_* that pycurl has no name for."""


class Transfer:
    """Its options are set once; an attempt sets only what differs from the one before.

    libcurl looks no name up: it is told the addresses, by entries of a DNS cache that is the handle's own, and where it
    would ask for a name that it was not told of, it is refused.

    `prepare`, `aim`, hand `curl` to the multi handle, take it back, `result`, `release`; then again.
    """

    __slots__ = (
        "_answering_since",
        "_body_kept",
        "_capped",
        "_chunks",
        "_connect_timeout_ms",
        "_entry_host",
        "_entry_kept",
        "_excerpt_bytes",
        "_expects_status_line",
        "_failure",
        "_inflows",
        "_interim",
        "_left_ms",
        "_literal",
        "_malformed",
        "_max_connect_timeout_ms",
        "_method",
        "_opened",
        "_policy",
        "_received",
        "_refusal",
        "_repeat_refused",
        "_response_bytes",
        "_sends_body",
        "_share",
        "_sockets",
        "_target",
        "_timeout_ms",
        "_told",
        "_untrusted",
        "attempt",
        "curl",
        "inflow",
        "may_start",
        "request",
        "waited_seconds",
    )

    attempt: Attempt
    request: CallbackRequest
    may_start: MayStart

    def __init__(self, *, settings: DeliverySettings, policy: NetworkPolicy, inflows: Inflows) -> None:
        self._policy = policy
        self._inflows = inflows
        self.inflow: Inflow | None = None
        self._response_bytes = settings.response_bytes
        self._excerpt_bytes = settings.excerpt_bytes
        self._max_connect_timeout_ms = max(round(settings.connect_timeout_seconds * 1000), 1)
        self._method = ""
        self._sends_body = False
        self._body_kept = False
        self._timeout_ms = self._connect_timeout_ms = self._left_ms = 0
        self._entry_host = ""
        self._entry_kept = False
        self._target: Target | None = None
        self._told: tuple[str, ...] = ()
        self._literal = False
        self._share: Any = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
        self._chunks: list[bytes] = []
        self.curl: Any = pycurl.Curl()
        for option, value in self._constant_options(settings).items():
            self.curl.setopt(option, value)
        self._trust(settings.ca_file)
        self._begin()

    def _constant_options(self, settings: DeliverySettings) -> dict[int, Any]:
        protocols = {"http": pycurl.PROTO_HTTP, "https": pycurl.PROTO_HTTPS}
        options: dict[int, Any] = {
            pycurl.NOSIGNAL: 1,
            pycurl.PROTOCOLS: sum(protocols[scheme] for scheme in self._policy.schemes),
            pycurl.FOLLOWLOCATION: 0,
            pycurl.PROXY: "",
            pycurl.NOPROXY: "*",
            pycurl.NETRC: pycurl.NETRC_IGNORED,
            pycurl.PATH_AS_IS: 1,
            _DISALLOW_USERNAME_IN_URL: 1,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_2TLS,
            pycurl.HTTP09_ALLOWED: 0,
            pycurl.TCP_NODELAY: 1,
            pycurl.SSL_VERIFYPEER: 1,
            pycurl.SSL_VERIFYHOST: 2,
            pycurl.SSLVERSION: pycurl.SSLVERSION_TLSv1_2,
            pycurl.MAXAGE_CONN: settings.idle_seconds,
            pycurl.MAXLIFETIME_CONN: settings.connection_lifetime_seconds,
            pycurl.SHARE: self._share,
            pycurl.DNS_CACHE_TIMEOUT: -1,
            pycurl.RESOLVER_START_FUNCTION: self._may_resolve,
            pycurl.OPENSOCKETFUNCTION: self._open_socket,
            pycurl.PREREQFUNCTION: self._before_request,
            pycurl.HEADERFUNCTION: self._hear_header,
            pycurl.WRITEFUNCTION: self._receive,
        }
        return options

    def _trust(self, ca_file: str | None) -> None:
        """The same authorities as `tls` has, none that libcurl was built for."""
        file, directory = default_authorities() if ca_file is None else (ca_file, None)
        for option, value in ((pycurl.CAINFO, file), (pycurl.CAPATH, directory)):
            if value is None:
                self.curl.unsetopt(option)
            else:
                self.curl.setopt(option, value)

    def _begin(self) -> None:
        self.waited_seconds = 0.0
        self._answering_since: float | None = None
        self._sockets: list[int] = []
        self._received = 0
        self._opened = self._untrusted = self._repeat_refused = self._capped = self._malformed = False
        self._refusal: Refusal | None = None
        self._failure: str | None = None

    def prepare(self, attempt: Attempt) -> None:
        """Set the handle up. Raises pycurl.error, ValueError or TypeError; to be released even so."""
        self.attempt, self.request, self.may_start = attempt, attempt.request, attempt.may_start
        request, curl = attempt.request, self.curl
        lines = [f"{name}: {value}" if value else f"{name};" for name, value in request.headers]
        lines += _SUPPRESSED
        sends = sends_body(request)
        if request.method != self._method or sends is not self._sends_body:
            self._reshape(request.method, sends)
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.HTTPHEADER, lines)
        if sends:
            curl.setopt(pycurl.POSTFIELDS, request.body)
            self._body_kept = len(request.body) > _LARGE_BODY
        self._timeout_ms = max(round(request.timeout_seconds * 1000), 1)
        self._connect_timeout_ms = min(self._timeout_ms, self._max_connect_timeout_ms)

    def _reshape(self, method: str, sends_body: bool) -> None:
        self._method = ""
        self.curl.setopt(pycurl.HTTPGET, 1)
        if sends_body:
            self.curl.setopt(pycurl.POST, 1)
        elif method == "HEAD":
            self.curl.setopt(pycurl.NOBODY, 1)
        self.curl.setopt(pycurl.CUSTOMREQUEST, method)
        self._method, self._sends_body = method, sends_body

    @property
    def connect_timeout_seconds(self) -> float:
        """For resolving, connecting and TLS together."""
        return self._connect_timeout_ms / 1000

    def aim(self, target: Target, addresses: tuple[str, ...], *, waited_seconds: float) -> None:
        """Where the request goes, and for how long its name was looked up: that is taken off its time-outs."""
        self.waited_seconds = waited_seconds
        waited_ms = round(waited_seconds * 1000) if waited_seconds else 0
        left_ms = max(self._timeout_ms - waited_ms, 1)
        if left_ms != self._left_ms:
            self._left_ms = left_ms
            self.curl.setopt(pycurl.TIMEOUT_MS, left_ms)
            self.curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(self._connect_timeout_ms - waited_ms, 1))
        self._literal = target.plain
        if not self._literal:
            self._set_entry(target, addresses)

    def _set_entry(self, target: Target, addresses: tuple[str, ...]) -> None:
        if target is self._target and addresses is self._told:
            if not self._entry_kept:
                # The attempt before has put it into the cache, which does not forget.
                self.curl.setopt(pycurl.RESOLVE, [])
                self._entry_kept = True
            return
        host = f"{target.host}:{target.port}"
        forgotten = [f"-{self._entry_host}"] if self._entry_host not in ("", host) else []
        entry = f"{host}:{','.join(f'[{each}]' if ':' in each else each for each in addresses)}"
        self.curl.setopt(pycurl.RESOLVE, [*forgotten, entry])
        self._entry_host, self._target, self._told, self._entry_kept = host, target, addresses, False

    def _may_resolve(self, *_: object) -> int:
        """libcurl is about to look a name up, which it does on threads shared by all; it asks for addresses too."""
        if self._literal:
            return 0
        self._target = None
        return 1

    def _open_socket(self, purpose: int, address: Any) -> int:
        """libcurl is about to connect. Refusing makes it try the next address of the name, if there is one."""
        try:
            refusal = judge_socket_address(self._policy, address.addr)
            if refusal is not None:
                self._refusal = refusal
            elif not self.may_start():
                self._untrusted = True
            else:
                opened = socket.socket(address.family, address.socktype, address.protocol).detach()
                self._opened = True
                self._sockets.append(opened)
                self._inflows.opened(opened)
                return opened
        except OSError as error:
            self._failure = f"no socket could be opened: {error.strerror}"
        except Exception as error:
            self._failure = f"opening a socket failed: {type(error).__name__}"
        return int(pycurl.SOCKET_BAD)

    def _before_request(self, remote: str, local: str, remote_port: int, local_port: int) -> int:
        """The connection stands; the request is about to be written. Called anew when libcurl repeats it."""
        try:
            if self.attempt.sends and self.request.at_most_once:
                self._repeat_refused = True
            elif not self.may_start():
                self._untrusted = True
            else:
                if self.inflow is not None:
                    self._leave_inflow()
                self.inflow = self._inflows.begun(Ends(local, local_port, remote, remote_port), self._sockets)
                self.attempt.sends += 1
                self._expects_status_line, self._interim = True, False
                return int(pycurl.PREREQFUNC_OK)
        except Exception as error:
            self._failure = f"asking whether to start failed: {type(error).__name__}"
        return int(pycurl.PREREQFUNC_ABORT)

    def _hear_header(self, line: bytes) -> int | None:
        """A line of a head, its end included, or of trailers. Refusing ends the attempt."""
        if self._expects_status_line:
            known = _STATUS_LINE.match(line)
            status = b"" if known is None else known[1]
            if not status or status == _SWITCHING_PROTOCOLS:
                self._malformed = True
                return 0
            self._expects_status_line, self._interim = False, status < b"200"
        elif self._interim and line in (b"\r\n", b"\n"):
            self._expects_status_line = True
        return None

    def _receive(self, data: bytes) -> int:
        if self._received < self._excerpt_bytes:
            self._chunks.append(data[: self._excerpt_bytes - self._received])
        self._received += len(data)
        if self._received > self._response_bytes:
            self._capped = True
            return 0
        return len(data)

    def _leave_inflow(self) -> None:
        if self.inflow is not None:
            self._inflows.ended(self.inflow)
            self.inflow = None

    def answering_seconds(self, now: float) -> float:
        """For how long its answer has had a status, as far as it was asked; not to be called from within libcurl."""
        if self._answering_since is None:
            if self.curl.getinfo(pycurl.RESPONSE_CODE) < _FIRST_FINAL_STATUS:
                return 0.0
            self._answering_since = now
        return now - self._answering_since

    def cut_short(self, *, now: float) -> AttemptResult:
        """What it came to where nothing more of the answer is waited for; it is in no multi handle any more."""
        self._capped = True
        return self.result(0, "", now=now)

    def result(self, code: int, message: str, *, now: float) -> AttemptResult:
        """What the attempt came to; `code` and `message` are libcurl's."""
        if self._malformed:
            return self._without_status(WEIRD_SERVER_REPLY, "", now)
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        if status < _FIRST_FINAL_STATUS:
            return self._without_status(code, message, now)
        if status < 300:
            return AttemptResult(
                status=status,
                error=None,
                started_at_ms=self.attempt.started_at_ms,
                duration_seconds=now - self.attempt.started,
            )
        return AttemptResult(
            status=status,
            error=None,
            detail="the answer broke off" if code and not self._capped else "",
            started_at_ms=self.attempt.started_at_ms,
            duration_seconds=now - self.attempt.started,
            excerpt=b"".join(self._chunks).decode(errors="replace"),
            retry_after_seconds=float(self.curl.getinfo(pycurl.RETRY_AFTER)) or None,
        )

    def _without_status(self, code: int, message: str, now: float) -> AttemptResult:
        verdict = judge(
            Ending(
                code=code,
                message=message,
                os_errno=self.curl.getinfo(pycurl.OS_ERRNO),
                sends=self.attempt.sends,
                timeout_seconds=self._timeout_ms / 1000,
                connect_timeout_seconds=self.connect_timeout_seconds,
                refusal=None if self._opened else self._refusal,
                untrusted=self._untrusted,
                repeat_refused=self._repeat_refused,
                failure=self._failure,
            )
        )
        return self.attempt.without_status(verdict, now)

    def spoke_http2(self) -> bool | None:
        """What the receiver spoke; None: it did not answer."""
        if not self.curl.getinfo(pycurl.RESPONSE_CODE):
            return None
        return bool(self.curl.getinfo(pycurl.INFO_HTTP_VERSION) == pycurl.CURL_HTTP_VERSION_2_0)

    def release(self) -> None:
        """Forget the attempt, so that an idle handle holds no large body and no caller."""
        self._leave_inflow()
        del self.attempt, self.request, self.may_start
        if self._chunks:
            self._chunks.clear()
        if self._body_kept:
            self.curl.setopt(pycurl.POSTFIELDS, b"")
            self._body_kept = False
        self._begin()

    def close(self) -> None:
        """The handle is in no multi handle any more."""
        self.curl.close()
        self._share.close()
