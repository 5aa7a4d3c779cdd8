"""Packed cells: their contents, and the handling of damaged ones."""

import re
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import asdict, replace

from cql.packed import (
    _REMEMBERED,
    _REMEMBERED_BYTES,
    UNREADABLE,
    _heads,
    _texts,
    pack_content,
    pack_delivery,
    unpack_content,
    unpack_delivery,
)
from cql.schedule_rows import content_of
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import prepare
from scheduler_service.api.resources.schedule_views import callback_view
from scheduler_service.domain.ids import ClientId, UnixMillis, partition_of
from scheduler_service.domain.options import NO_OPTIONS
from scheduler_service.domain.retry_rows import definition_of, retry_row_of
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client

SHOP = ClientId("shop")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(method=TEXTS, url=TEXTS, headers=TEXTS, body=st.binary(max_size=40), options=TEXTS)
def test_what_was_packed_comes_back(method: str, url: str, headers: str, body: bytes, options: str) -> None:
    content = pack_content(method, url, headers, body, options)
    assert unpack_content(content) == (method, url, headers, body, options)


@given(st.binary(max_size=60) | st.builds(lambda rest: b"\x01" + bytes(3) + rest, st.binary(max_size=60)))
def test_any_bytes_are_content_or_are_shown_as_they_are(content: bytes) -> None:
    method, url, headers, body, options = unpack_content(content)
    if method is None or url is None:
        assert (method, url, headers, body, options) == (None, None, UNREADABLE, content, UNREADABLE)
    else:
        assert pack_content(method, url, headers, body, options) == content


def test_the_form_is_as_the_module_says() -> None:
    content = pack_content("POST", "https://a.example/\u00e9", "[]", b"\x00body", "{}")
    lengths = struct.pack(">IIII", 4, 20, 2, 2)
    assert content == b"\x01" + lengths + b"POST" + "https://a.example/\u00e9".encode() + b"[]{}\x00body"


def test_few_texts_are_remembered_and_long_ones_never() -> None:
    for number in range(_REMEMBERED + 10):
        unpack_content(pack_content("POST", f"https://a.example/{number}", "[]", b"", "{}"))
    assert 0 < len(_heads) <= _REMEMBERED
    assert 0 < len(_texts) <= _REMEMBERED
    long = "x" * _REMEMBERED_BYTES
    assert unpack_content(pack_content("POST", long, "[]", b"", "{}"))[1] == long
    assert not any(long in texts for texts in _heads)
    assert not any(long.encode() in head for head in _texts)


def content_stored_as(content: bytes) -> dict[str, Any]:
    return asdict(content_of((), content))


@pytest.mark.parametrize("how", ["as it is", "retried", "redelivered", "stored again"])
def test_a_row_with_such_content_is_not_called_and_fails_as_undecodable(how: str) -> None:
    """No row made from it is called either."""
    row = claim(**content_stored_as(b"\x02 of a later program")).row
    if how == "redelivered":
        row = replace(row, redelivered_at=UnixMillis(row.due + 9))
    made = retry_row_of(definition_of(partition_of(SHOP, row.schedule_id), row), at=row.due, attempts=1).content
    if how == "stored again":
        texts = made.method or "", made.url or "", made.headers or ""
        made = content_of((), pack_content(*texts, made.body or b"", made.options or ""))
    told = row if how == "as it is" else row.filled(made)
    outcome = prepare(Claim(told, False, None), client=client(), epoch=EPOCH, sender=SENDER, now=row.due)
    assert isinstance(outcome, Outcome)
    assert (outcome.state, outcome.reason) == (State.FAILED, "undecodable")


@pytest.mark.parametrize(
    "said",
    [
        "1 99999999999999999999 204 7 n",
        "1_0 1763836800123 204 7 n",
        "\u0661 1763836800123 204 7 n",
        "1 2 3 4",
        " 1 2 3 4 n",
    ],
)
def test_a_delivery_is_five_parts_of_which_four_are_numbers_that_fit(said: str) -> None:
    assert unpack_delivery(said) is None
    assert unpack_delivery("1 1763836800123 204 7 node 1@2") == (1, 1763836800123, 204, 7, "node 1@2")


def test_a_delivery_without_a_status_is_packed_and_read_as_a_success_by_older_programs() -> None:
    ended = Outcome(
        state=State.DELIVERED,
        attempts=2,
        first_attempt_at=UnixMillis(1763836800123),
        finished_at=UnixMillis(1763836800200),
        fired_epoch=7,
        fired_by="node 1@2",
    )
    packed = pack_delivery(ended)
    assert packed is not None
    assert unpack_delivery(packed) == (2, 1763836800123, None, 7, "node 1@2")
    said = re.fullmatch(r"([0-9]{1,9}) ([0-9]{1,14}) ([0-9]{1,9}) ([0-9]{1,18}) (.*)", packed)
    assert said is not None
    assert [int(number) for number in said.groups()[:4]] == [2, 1763836800123, 200, 7]


def test_unreadable_content_is_never_shown() -> None:
    """Its body is all that is stored, and credentials may be part of it."""
    stored = b"\x09" + pack_content("POST", "https://a.example", '[["authorization","Bearer s3cret"]]', b"", "{}")
    row = replace(claim().row, **content_stored_as(stored))
    shown = callback_view(SHOP, row, NoEncryption(), NO_OPTIONS)
    assert (shown.body, shown.body_base64, shown.headers) == (UNSET, UNSET, None)
