"""What `on_success` and `on_failure` of a schedule send: its end, with the receiver's answer to the last attempt. Pure.

The end is placed as a row of `$events` (`EndNotice`) after it was recorded, by the owner of its poller or by the next
one; its id derives from the schedule and that end, so each of them makes the same row. The answer is kept in the
memory of the node that got it until then. Of an end whose node died, or which had to make room for others' answers, the
notice says that the answer is not known.
"""

import base64
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId, PollerId

END_NOTICES_SINCE: Final = 33
"""The migration whose programs tell these ends: older nodes would tell nobody."""
ANSWER_BYTES: Final = 65_536
"""Of a body at most."""
HEADER_BYTES: Final = 8_192
"""Of all headers at most; further ones are left out."""
NEVER_SENT: Final = frozenset(
    (
        *("set-cookie", "set-cookie2", "cookie", "authorization", "proxy-authorization", "authentication-info"),
        *("www-authenticate", "proxy-authenticate", "proxy-authentication-info"),
    )
)
"""Headers of answers that are credentials, or ask for them."""


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a receiver answered. `cut`: the body was longer, or broke off."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    cut: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.body) + sum(len(name) + len(value) for name, value in self.headers) + 200


class EndNotice(msgspec.Struct, frozen=True, kw_only=True, tag="end", tag_field="kind"):
    """The body of a row of `$events` that tells a schedule's end to a receiver of its own. `url`: of that receiver, or
    one that names a destination. `on`: success or failure. `answer` None: there was none, or it is not known.
    `letter_poller`: as in `notices.NoticeContent`."""

    client_id: ClientId
    on: str
    url: str
    event: Event
    letter_poller: PollerId
    answer: KeptAnswer | None = None
    answer_known: bool = True


def kept_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers of an answer that are sent on, as far as they fit."""
    kept, size = [], 0
    for name, value in headers:
        size += len(name) + len(value)
        if size > HEADER_BYTES:
            break
        if name.lower() not in NEVER_SENT:
            kept.append((name, value))
    return tuple(kept)


def answer_view(answer: KeptAnswer | None) -> dict[str, Any] | None:
    """An answer as a notice shows it: `body` is text, or `body_base64` what is not UTF-8."""
    if answer is None:
        return None
    shown: dict[str, Any] = {"status": answer.status, "headers": answer.headers}
    try:
        shown["body"] = _text(answer)
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(answer.body).decode()
    return shown | {"cut": answer.cut}


def _text(answer: KeptAnswer) -> str:
    """Raises UnicodeDecodeError. A character that the cut has parted is left out."""
    try:
        return answer.body.decode()
    except UnicodeDecodeError as error:
        if not answer.cut or error.start < len(answer.body) - 3 or error.reason != "unexpected end of data":
            raise
        return answer.body[: error.start].decode()
