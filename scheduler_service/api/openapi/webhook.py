"""The callback that a receiver gets, as the document's webhook. Nodes set the headers
(`poller_cluster.delivery.headers`); a test compares the names."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from scheduler_service.domain.callback_rules import METHODS

SIGNED = """\
The request that the schedule asks for: its method, URL, headers and bytes, and the headers below, which callers can't
override. Every attempt has the same `webhook-id`: a receiver that remembers the ids it has handled does nothing twice.

`webhook-signature` is that of [Standard Webhooks](https://www.standardwebhooks.com): the texts
`v1,` + base64(HMAC-SHA256(secret, id.timestamp.body)), one for each of the client's active secrets, and
`v1a,` + base64(Ed25519(private key, id.timestamp.body)), one for each of its key pairs, separated by
spaces. `secret` is what follows `whsec_`, decoded from base64, a public key what follows `whpk_`, as
`/v1/public-keys/{signer}` lists it; `id` and `timestamp` are the headers' values, `body` the raw bytes. Compare in
constant time, accept any of the signatures, and refuse a timestamp that is more than five minutes off.
`minutehand.webhooks.verify` does all of this.

Headers of the answer may say more than its status, where the client's setting `receiver_verbs` allows it:

- `webhook-delivery: abort-message` with a failure, or status 489: no further attempt is made.
- `Minutehand-Call-At`, an RFC 3339 instant, with any status, or `Retry-After` with a 2xx: the schedule is called again
  at that instant under the same id, and has not failed.
- `Minutehand-Stop-Cron: true`: the run ends with this answer, and its cron is paused.

`Retry-After` with a failure lengthens the delay of the next attempt, within the retry settings.
"""


class Sent(NamedTuple):
    """A header of callbacks. `always`: every callback has it."""

    sentence: str
    schema: Mapping[str, Any]
    example: str
    always: bool = True


_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_COUNT: Final[Mapping[str, Any]] = {"type": "integer", "minimum": 1}

CALLBACK_HEADERS: Final[Mapping[str, Sent]] = {
    "webhook-id": Sent(
        "The schedule's id, the same in all its attempts.",
        {"type": "string", "format": "uuid"},
        "01a1fd71-2c58-8000-882a-6d1f0c3e5a97",
    ),
    "webhook-timestamp": Sent("When this attempt was signed, in Unix seconds.", {"type": "integer"}, "1795253415"),
    "webhook-signature": Sent(
        "One signature for each active secret and key pair. Missing if the client has no secret.",
        _TEXT,
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        always=False,
    ),
    "Minutehand-Client": Sent("The client's id.", _TEXT, "shop"),
    "Minutehand-Schedule-Id": Sent(
        "The schedule's id.", {"type": "string", "format": "uuid"}, "01a1fd71-2c58-8000-882a-6d1f0c3e5a97"
    ),
    "Minutehand-Cron-Id": Sent("The cron that this call is a run of.", _TEXT, "nightly", always=False),
    "Minutehand-Due": Sent(
        "The nominal time of the call.", {"type": "string", "format": "date-time"}, "2026-11-21T09:30:15.000Z"
    ),
    "Minutehand-Trial": Sent(
        "This is a trial call, sent to test the receiver.",
        {"type": "string", "const": "true"},
        "true",
        always=False,
    ),
    "Minutehand-Attempt": Sent("The number of this attempt, from 1.", _COUNT, "1"),
    "Minutehand-Fence": Sent(
        "Grows with every change of the poller's owner: refuse a call whose fence is lower than one seen before for "
        "the same schedule.",
        _COUNT,
        "4",
    ),
    "Minutehand-Ack-Url": Sent(
        "Where the receiver says later what became of the call, if it answers 202 now. It needs no key, and is good "
        "for this attempt only. Set for callbacks with `ack`.",
        {"type": "string", "format": "uri"},
        "https://minutehand.example/v1/acknowledgements/AQGh_XEsWIAAiCptHww-WpcAAAABAAAAAAAAAAQAAAGboP0RgHNob3B",
        always=False,
    ),
    "Minutehand-Redelivery": Sent(
        "Set if an earlier owner may have made this call already.",
        {"type": "string", "const": "true"},
        "true",
        always=False,
    ),
    "User-Agent": Sent("`Minutehand/` and its version.", _TEXT, "Minutehand/0.1.0"),
}


def webhook() -> dict[str, Any]:
    """The path item of the callback, under POST, the default method of schedules."""
    parameters = [
        {
            "name": name,
            "in": "header",
            "required": sent.always,
            "description": sent.sentence,
            "schema": dict(sent.schema),
            "example": int(sent.example) if sent.schema["type"] == "integer" else sent.example,
        }
        for name, sent in CALLBACK_HEADERS.items()
    ]
    others = ", ".join(sorted(METHODS - {"POST"}))
    return {
        "post": {
            "operationId": "callback",
            "tags": ["callback"],
            "summary": "The callback that a receiver gets",
            "description": f"{SIGNED}\nThe method is the schedule's: POST, or one of {others}.",
            "security": [],
            "parameters": parameters,
            "requestBody": {
                "description": "The schedule's bytes, with the content type of its headers.",
                "content": {"*/*": {"schema": {}, "example": {"order": 17}}},
            },
            "responses": {
                "202": {
                    "description": "Taken: the receiver says later, at `Minutehand-Ack-Url`, what became of it. "
                    "Without that header it is delivered."
                },
                "2XX": {"description": "Delivered, unless a header asks for another call. The body is ignored."},
                "410": {"description": "Failed, and not retried: 410 is final unless the client's settings differ."},
                "489": {"description": "Failed, and not retried, unless the client's `receiver_verbs` differ."},
                "default": {
                    "description": "Anything else, redirects included, is a failed attempt: it is repeated under the "
                    "client's retry settings."
                },
            },
        }
    }
