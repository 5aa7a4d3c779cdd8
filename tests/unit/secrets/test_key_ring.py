"""The key ring: valid keys, what it decrypts, and that nothing else does."""

import base64

import pytest
from msgspec.structs import replace

from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import KEY_BYTES, KeyRing, RingInvalid, new_key

RANDOMNESS = SystemRandomness()
OLD, NEW = (new_key(name, randomness=RANDOMNESS) for name in ("old", "new"))
CLEAR = SigningSecret(
    client_id=ClientId("shop"),
    secret_id="a1",
    secret=bytes(range(32)),
    encryption_key_id=None,
    created_at=UnixMillis(5),
)


def ring(*lines: str) -> KeyRing:
    return KeyRing.parse("\n".join(lines))


def test_what_is_sealed_opens_and_hides_the_secret() -> None:
    sealed = ring(OLD).seal(CLEAR, randomness=RANDOMNESS)
    assert sealed.encryption_key_id == "old"
    assert CLEAR.secret not in sealed.secret
    assert ring(OLD).open(sealed) == CLEAR


def test_the_same_secret_is_never_encrypted_alike() -> None:
    one = ring(OLD)
    assert len({one.seal(CLEAR, randomness=RANDOMNESS).secret for _ in range(100)}) == 100


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    under_old = ring(OLD, NEW).seal(CLEAR, randomness=RANDOMNESS)
    under_new = ring(NEW, OLD).seal(CLEAR, randomness=RANDOMNESS)
    assert (under_old.encryption_key_id, under_new.encryption_key_id) == ("old", "new")
    for both in (ring(NEW, OLD), ring(OLD, NEW)):
        assert both.open(under_old) == both.open(under_new) == CLEAR


def test_what_is_in_the_clear_stays_readable() -> None:
    assert ring(OLD).open(CLEAR) == KeyRing().open(CLEAR) == CLEAR


def test_without_a_ring_nothing_is_encrypted() -> None:
    assert KeyRing().seal(CLEAR, randomness=RANDOMNESS) == CLEAR


def test_a_missing_key_is_named_with_its_setting() -> None:
    sealed = ring(OLD).seal(CLEAR, randomness=RANDOMNESS)
    for other in (ring(NEW), KeyRing()):
        with pytest.raises(SecretLocked, match=r"under the key old, which is not .* secrets\.key_ring_file") as caught:
            other.open(sealed)
        assert caught.value.key_id == "old"
        assert sealed.secret.hex() not in str(caught.value)


@pytest.mark.parametrize(
    "moved", [{"client_id": ClientId("bank")}, {"secret_id": "a2"}, {"client_id": ClientId("sho"), "secret_id": "pa1"}]
)
def test_it_opens_only_in_its_own_row(moved: dict[str, str]) -> None:
    sealed = ring(OLD).seal(CLEAR, randomness=RANDOMNESS)
    with pytest.raises(SecretLocked, match="the stored value was changed"):
        ring(OLD).open(replace(sealed, **moved))


def test_any_changed_bit_is_noticed() -> None:
    sealed = ring(OLD).seal(CLEAR, randomness=RANDOMNESS)
    for place in range(len(sealed.secret)):
        changed = bytearray(sealed.secret)
        changed[place] ^= 1
        with pytest.raises(SecretLocked):
            ring(OLD).open(replace(sealed, secret=bytes(changed)))
    for stored in (b"", sealed.secret[:-1], sealed.secret[:20], CLEAR.secret):
        with pytest.raises(SecretLocked):
            ring(OLD).open(replace(sealed, secret=stored))


def test_another_key_of_the_same_id_does_not_open_it() -> None:
    sealed = ring(OLD).seal(CLEAR, randomness=RANDOMNESS)
    with pytest.raises(SecretLocked, match="another key with that id"):
        ring(new_key("old", randomness=RANDOMNESS)).open(sealed)


def test_a_ring_is_read_with_comments_and_blank_lines() -> None:
    read = ring("# ours", "", f"  {NEW}   # since November", OLD)
    assert (read.primary, list(read.keys)) == ("new", ["new", "old"])
    assert all(len(key) == KEY_BYTES for key in read.keys.values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no key"),
        ("# nothing\n", "it has no key"),
        ("lonely", "line 1 is not `ID KEY`"),
        (f"{OLD}\nthree words here", "line 2 is not `ID KEY`"),
        ("sl/ash " + OLD.split()[1], "line 1 is not `ID KEY`"),
        ("short " + base64.b64encode(b"x" * 16).decode(), "the key short is not 32 bytes in base64"),
        ("bad !!!!", "the key bad is not 32 bytes in base64"),
        (f"{OLD}\n{OLD}", "line 2: the id old occurs twice"),
    ],
    ids=["empty", "comment", "one-word", "three-words", "bad-id", "short-key", "no-base64", "twice"],
)
def test_what_is_no_ring_is_refused_by_line(text: str, words: str) -> None:
    with pytest.raises(RingInvalid) as caught:
        KeyRing.parse(text)
    assert words in str(caught.value)
    assert OLD.split()[1] not in str(caught.value)


def test_a_ring_does_not_show_its_keys() -> None:
    assert str(ring(OLD).keys["old"]) not in repr(ring(OLD))
    assert OLD.split()[1] not in repr(ring(OLD))


def test_an_id_that_would_not_be_read_is_not_made() -> None:
    with pytest.raises(RingInvalid, match="is no key id"):
        new_key("two words", randomness=RANDOMNESS)
