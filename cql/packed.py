"""Cells of `schedules` that replace several columns, because the cost of a row in Cassandra is its number of cells.

`content` is a blob instead of method, url, headers, options and body, which are written together and never change;
`revised` is one that replaces them, in the same form (`domain.revisions`):

    1 byte                             the form: 1
    4 x 4 bytes                        lengths of method, url, headers and options in bytes, big-endian
    method, url, headers, options      UTF-8
    body                               the rest

`delivery` is a text instead of the five columns of the most frequent outcome, a call delivered by its first write:

    attempts first_attempt_at last_status fired_epoch fired_by          1 1763836800123 204 7 node-1@1763836790000

Behind `fired_by`, which is the last so that it may hold anything, late calls have what they waited for
(`domain.waits`). A delivery without a status, as every one to a target, has 0200 there: no status begins with 0.
Programs that do not know that read 200, and all the rest right: a text that they can't read would hide the first
attempt, and with it the lateness, from the balance of an older node.

`minutehand schedules show --raw` shows both in readable form. The rest of a definition stays in columns, left unset at
their defaults: `kind` of calls, `attempt_base` of 0. `created_at` is a column because it is written later where a row
is announced first, and because sweeps, counts and lean reads take it without the content.

Every program reads packed cells and columns. Where a row has both, `content` wins over its columns, and an outcome in
columns over `delivery` (`schedule_rows`). A process writes them only while it sees no node whose program can't read
them (`PACKED_SINCE`), and programs that can't are refused at start (migration 0016). Unreadable content is answered as
a value, so that only its row fails, as undecodable.

Cost of a row, CPU milliseconds (medians of 6 to 12 rounds by turns on two shared cores, with a spread of a quarter;
Cassandra's after more than a minute of the same load, without its compilers and collector):

                                                      columns   packed
    written, 250 of one partition a request            0.0104   0.0064      (the same with `kind` set: 0.0061 to 0.0067)
    written, 10 of 10 partitions a request             0.0266   0.0231
    read by pages of 1,000, Cassandra                  0.0056   0.0041
    read by pages of 1,000, the reader                 0.0032   0.0040      driver and rows; see `_Texts`

Requests with one row, which cost 0.07, showed no difference. `python -m tests.bench.rows` measures it.
"""

import re
import struct
from itertools import accumulate, pairwise
from typing import Final, TypeVar

from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Outcome, State

PACKED_SINCE = 15
"""The migration from which on programs can read packed cells."""
UNREADABLE = "unreadable"
"""Headers and options of content that can't be unpacked; not JSON. The body is then the whole blob."""
FORM = 1
TEXTS = 4
LENGTH_BYTES = 4

NO_STATUS: Final = "0200"
"""Stands in a delivery for no status."""
_HEAD = struct.Struct(f">B{TEXTS}I")
_DELIVERY = re.compile(r"([0-9]{1,9}) ([0-9]{1,14}) ([0-9]{1,9}) ([0-9]{1,18}) (.*)", re.DOTALL)
_REMEMBERED = 4096
_REMEMBERED_BYTES = 512

K = TypeVar("K")
V = TypeVar("V")
Texts = tuple[str, str, str, str]
"""Method, url, headers, options."""
Unpacked = tuple[str | None, str | None, str, bytes, str]
"""The fields of `domain.schedules.Content`, in their order."""


def _remember(known: dict[K, V], key: K, value: V, *, size: int) -> V:
    """Cache a computed value: most content of a client differs only in its body."""
    if size <= _REMEMBERED_BYTES:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = value
    return value


class _Heads(dict[Texts, bytes]):
    """The bytes before the body, by the texts in them."""

    def __missing__(self, texts: Texts) -> bytes:
        encoded = [text.encode() for text in texts]
        head = b"".join((_HEAD.pack(FORM, *map(len, encoded)), *encoded))
        return _remember(self, texts, head, size=len(head))


class _Texts(dict[bytes, Texts]):
    """The texts, by the bytes before the body. Raises UnicodeDecodeError."""

    def __missing__(self, head: bytes) -> Texts:
        _, *lengths = _HEAD.unpack_from(head)
        ends = [*accumulate(lengths, initial=_HEAD.size)]
        method, url, headers, options = (head[start:end].decode() for start, end in pairwise(ends))
        return _remember(self, head, (method, url, headers, options), size=len(head))


_heads, _texts = _Heads(), _Texts()


def pack_content(method: str, url: str, headers: str, body: bytes, options: str) -> bytes:
    return _heads[method, url, headers, options] + body


def unpack_content(content: bytes) -> Unpacked:
    """Never raises: one row must not keep its whole page from being read."""
    try:
        form, of_method, of_url, of_headers, of_options = _HEAD.unpack_from(content)
        end = _HEAD.size + of_method + of_url + of_headers + of_options
        if form != FORM or end > len(content):
            return _unreadable(content)
        method, url, headers, options = _texts[content[:end]]
    except (struct.error, UnicodeDecodeError):
        return _unreadable(content)
    return method, url, headers, content[end:], options


def _unreadable(content: bytes) -> Unpacked:
    return None, None, UNREADABLE, content, UNREADABLE


def pack_delivery(outcome: Outcome) -> str | None:
    """None for an outcome that is not exactly a delivery: a missing field, or one beyond it."""
    if (
        outcome.state is not State.DELIVERED
        or outcome.finished_at is None
        or outcome.first_attempt_at is None
        or outcome.fired_epoch is None
        or outcome.fired_by is None
        or outcome.next_attempt_at is not None
        or outcome.last_error is not None
        or outcome.reason is not None
        or outcome.rescheduled_to is not None
        or outcome.redelivered_at is not None
    ):
        return None
    status = NO_STATUS if outcome.last_status is None else outcome.last_status
    return f"{outcome.attempts} {outcome.first_attempt_at} {status} {outcome.fired_epoch} {outcome.fired_by}"


def unpack_delivery(delivery: str) -> tuple[int, UnixMillis, int | None, int, str] | None:
    """The fields in the text, the status perhaps None; None for a text that this program can't read."""
    said = _DELIVERY.fullmatch(delivery)
    if said is None:
        return None
    attempts, first_attempt_at, last_status, fired_epoch, fired_by = said.groups()
    status = None if last_status.startswith("0") else int(last_status)
    return int(attempts), UnixMillis(int(first_attempt_at)), status, int(fired_epoch), fired_by
