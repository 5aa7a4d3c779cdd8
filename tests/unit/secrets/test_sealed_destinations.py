"""Stored destinations: encrypted for one client and one name, and no other kind of text."""

from pathlib import Path

import pytest

from scheduler_service.domain.destinations import (
    CloudEvents,
    Destination,
    TokenSource,
    decode_destination,
    encode_destination,
)
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import Undecodable
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import new_key
from scheduler_service.usecases.secret_encryption import KeyRingEncryption, NoEncryption

RANDOMNESS = SystemRandomness()
OLD, NEW = (new_key(name, randomness=RANDOMNESS) for name in ("old", "new"))
SHOP, BANK = ClientId("shop"), ClientId("bank")
WHOLE = Destination(
    url="https://shop.example/hook?a=b",
    method="PUT",
    headers=(("Authorization", "Bearer canary7f3a"),),
    timeout_seconds=2.5,
    max_per_second=0.5,
    max_in_flight=3,
    token=TokenSource(client_id="me", client_secret="canary7f3a", issuer="https://id.example"),
    cloudevents=CloudEvents(type="shop.paid", source="/shop"),
)
CLEAR = encode_destination(WHOLE)


def encryption(tmp_path: Path, *lines: str, encrypt_headers: bool = True) -> KeyRingEncryption:
    ring = tmp_path / "-".join(line[:3] for line in lines)
    ring.write_text("\n".join(lines))
    return KeyRingEncryption(
        str(ring), randomness=RANDOMNESS, encrypt_headers=encrypt_headers, older_programs=lambda: True
    )


def test_a_document_comes_back_whole() -> None:
    assert decode_destination(CLEAR) == WHOLE
    assert decode_destination(encode_destination(Destination(url="http://a"))) == Destination(url="http://a")


@pytest.mark.parametrize("document", ["", '{"url":7}', "[" * 5000, "sealed:1:old:AAAA"])
def test_an_undecodable_destination_is_not_quoted_in_the_error(document: str) -> None:
    with pytest.raises(Undecodable) as raised:
        decode_destination(document)
    assert str(raised.value) == "the destination can't be decoded"
    assert raised.value.__cause__ is None


def test_a_destination_without_address_is_undecodable() -> None:
    with pytest.raises(Undecodable, match="neither URL nor target"):
        decode_destination("{}")


def test_a_representation_shows_no_secret() -> None:
    assert "canary" not in repr(WHOLE) + repr(WHOLE.token)


def test_what_is_sealed_opens_under_its_own_name_only(tmp_path: Path) -> None:
    old = encryption(tmp_path, OLD)
    sealed = old.seal_destination(SHOP, "hook", CLEAR)
    assert "canary" not in sealed
    assert old.open_destination(SHOP, "hook", sealed) == CLEAR
    assert sealed == old.seal_destination(SHOP, "hook", CLEAR), "equal documents are stored alike"
    for client_id, name in ((BANK, "hook"), (SHOP, "other")):
        with pytest.raises(SecretLocked, match=r"destinations of client .* what is stored was changed"):
            old.open_destination(client_id, name, sealed)


def test_destinations_and_headers_do_not_pass_for_each_other(tmp_path: Path) -> None:
    old = encryption(tmp_path, OLD)
    with pytest.raises(SecretLocked):
        old.open_headers(SHOP, old.seal_destination(SHOP, "hook", CLEAR))
    headers = KeyRingEncryption(str(tmp_path / OLD[:3]), randomness=RANDOMNESS).seal_headers(SHOP, '[["a","b"]]')
    assert headers.startswith("sealed:")
    with pytest.raises(SecretLocked):
        old.open_destination(SHOP, "hook", headers)


def test_the_first_key_encrypts_whatever_is_done_with_headers_and_all_decrypt(tmp_path: Path) -> None:
    first, second = encryption(tmp_path, OLD), encryption(tmp_path, NEW, OLD, encrypt_headers=False)
    before, after = (one.seal_destination(SHOP, "hook", CLEAR) for one in (first, second))
    assert before.startswith("sealed:1:old:")
    assert after.startswith("sealed:1:new:")
    assert second.open_destination(SHOP, "hook", before) == second.open_destination(SHOP, "hook", after) == CLEAR
    for other in (first, NoEncryption()):
        with pytest.raises(SecretLocked, match=r"key new, which is not .* secrets\.key_ring_file") as it:
            other.open_destination(SHOP, "hook", after)
        assert it.value.key_id == "new"


def test_without_a_ring_they_are_in_the_clear_and_stay_readable(tmp_path: Path) -> None:
    assert NoEncryption().seal_destination(SHOP, "hook", CLEAR) == CLEAR
    for one in (NoEncryption(), encryption(tmp_path, OLD)):
        assert one.open_destination(SHOP, "hook", CLEAR) == CLEAR
