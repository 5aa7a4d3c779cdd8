"""Stored headers: what encrypts them, what decrypts them, and that nothing else does."""

import base64

import pytest

from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import NO_HEADERS, Undecodable, decode_headers, encode_headers
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import KeyRing, new_key
from scheduler_service.usecases.sealed_headers import HEADERS_REMEMBERED, REMEMBERED_LENGTH, HeaderCipher

RANDOMNESS = SystemRandomness()
OLD, NEW = (new_key(name, randomness=RANDOMNESS) for name in ("old", "new.2026_11-a"))
SHOP, BANK = ClientId("shop"), ClientId("bank")
CLEAR = encode_headers([("Authorization", "Bearer canary7f3a"), ("X-Für", "é\t✓")])


def cipher(*lines: str) -> HeaderCipher:
    return HeaderCipher(KeyRing.parse("\n".join(lines)))


def test_what_is_sealed_opens_and_hides_names_and_values() -> None:
    sealed = cipher(OLD).seal(SHOP, CLEAR)
    assert "canary" not in sealed
    assert "Authorization" not in sealed
    assert cipher(OLD).open(SHOP, sealed) == CLEAR


def test_equal_headers_of_one_client_are_stored_alike_and_of_two_clients_are_not() -> None:
    assert cipher(OLD).seal(SHOP, CLEAR) == cipher(OLD, NEW).seal(SHOP, CLEAR)
    assert cipher(OLD).seal(SHOP, CLEAR) != cipher(OLD).seal(BANK, CLEAR)
    assert cipher(OLD).seal(SHOP, CLEAR) != cipher(OLD).seal(SHOP, CLEAR.replace("7", "8"))


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    sealed = cipher(OLD, NEW).seal(SHOP, CLEAR), cipher(NEW, OLD).seal(SHOP, CLEAR)
    assert sealed[0] != sealed[1]
    for both in (cipher(OLD, NEW), cipher(NEW, OLD)):
        assert [both.open(SHOP, one) for one in sealed] == [CLEAR, CLEAR]


def test_rows_in_the_clear_stay_readable() -> None:
    for text in ("", NO_HEADERS, CLEAR):
        assert cipher(OLD).open(SHOP, text) == HeaderCipher(KeyRing()).open(SHOP, text) == text


def test_no_headers_and_no_ring_encrypt_nothing() -> None:
    assert cipher(OLD).seal(SHOP, NO_HEADERS) == NO_HEADERS
    assert HeaderCipher(KeyRing()).seal(SHOP, CLEAR) == CLEAR


def test_a_missing_key_is_named_with_its_setting() -> None:
    sealed = cipher(OLD).seal(SHOP, CLEAR)
    for other in (cipher(NEW), HeaderCipher(KeyRing())):
        with pytest.raises(
            SecretLocked, match=r"of client shop .* key old, which is not .* secrets\.key_ring_file"
        ) as it:
            other.open(SHOP, sealed)
        assert it.value.key_id == "old"


def test_it_opens_only_for_its_own_client() -> None:
    with pytest.raises(SecretLocked, match="what is stored was changed"):
        cipher(OLD).open(BANK, cipher(OLD).seal(SHOP, CLEAR))


def test_any_changed_bit_is_noticed() -> None:
    sealed, head = cipher(OLD).seal(SHOP, CLEAR), "sealed:1:old:"
    encryption = base64.b64decode(sealed.removeprefix(head))
    for place in range(len(encryption)):
        changed = bytearray(encryption)
        changed[place] ^= 1
        with pytest.raises(SecretLocked):
            cipher(OLD).open(SHOP, head + base64.b64encode(changed).decode())
    for stored in (head, sealed[: len(head) + 8], sealed[:-4], "sealed:", sealed.replace("1", "2", 1), sealed + "!"):
        with pytest.raises(SecretLocked):
            cipher(OLD).open(SHOP, stored)


def test_another_key_of_the_same_id_does_not_open_it() -> None:
    with pytest.raises(SecretLocked, match="another key of that id"):
        cipher(new_key("old", randomness=RANDOMNESS)).open(SHOP, cipher(OLD).seal(SHOP, CLEAR))


def test_what_is_sealed_is_never_taken_for_headers() -> None:
    with pytest.raises(Undecodable):
        decode_headers(cipher(OLD).seal(SHOP, CLEAR))


def test_what_is_remembered_is_bounded_and_never_wrong() -> None:
    one, other = cipher(OLD, NEW), cipher(OLD, NEW)
    texts = [encode_headers([("x-n", str(number)), ("x-long", "v" * (number % 2 * 2_000))]) for number in range(9_000)]
    sealed = [one.seal(SHOP, text) for text in texts]
    assert len(one._sealed) == len(one._opened) <= HEADERS_REMEMBERED
    assert max(map(len, one._opened.values())) <= REMEMBERED_LENGTH
    for text, stored in zip(texts[-100:], sealed[-100:], strict=True):
        assert one.seal(SHOP, text) == stored == other.seal(SHOP, text)
        assert one.open(SHOP, stored) == text
        assert one.seal(BANK, text) != stored
        with pytest.raises(SecretLocked):
            one.open(BANK, stored)
