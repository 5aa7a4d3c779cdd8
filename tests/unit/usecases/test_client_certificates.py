"""Client certificates: what TLS would not take is refused, with every fault, and nothing of it is repeated."""

import ssl
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from poller_cluster.delivery.client_contexts import present
from scheduler_service.domain.destination_access import ClientCertificate
from scheduler_service.usecases.client_certificates import (
    MAX_CERTIFICATE_BYTES,
    MAX_CHAIN,
    MAX_KEY_BYTES,
    certificate_facts,
    certificate_faults,
    cost_of_key,
)
from tests.support.api import NOW
from tests.support.client_pems import SOON, pair, pem_certificate, pem_key, rsa_key, said_to_be_by_sha1

EXPIRY = round(SOON.timestamp() * 1000)
GOOD = pair()


def faults(chain: str, key: str, *, now: int = NOW) -> dict[str, str]:
    found = certificate_faults(ClientCertificate(chain=chain, key=key), now=now, at="/certificate")
    return {fault.pointer.removeprefix("/certificate"): fault.detail for fault in found}


def taken_by_tls(certificate: ClientCertificate) -> bool:
    try:
        present(ssl.create_default_context(), certificate)
    except ssl.SSLError:
        return False
    return True


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
        ed448.Ed448PrivateKey.generate(),
        rsa_key(2048),
    ],
    ids=["P-256", "P-521", "Ed25519", "Ed448", "RSA"],
)
def test_what_is_accepted_is_taken_by_tls(key: CertificateIssuerPrivateKeyTypes) -> None:
    certificate = ClientCertificate(chain=pem_certificate(key) + GOOD["chain"], key=pem_key(key))
    assert faults(certificate.chain, certificate.key) == {}
    assert taken_by_tls(certificate)
    assert certificate_facts(certificate) == ("CN=shop", EXPIRY)


def test_texts_between_the_blocks_do_no_harm() -> None:
    chain = f"subject=CN = shop\n{GOOD['chain']}\nissuer=CN = shop\n"
    parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    assert faults(chain, parameters + GOOD["key"]) == {}
    assert taken_by_tls(ClientCertificate(chain=chain, key=parameters + GOOD["key"]))


def test_an_expired_certificate_is_refused() -> None:
    assert faults(GOOD["chain"], GOOD["key"], now=EXPIRY - 1) == {}
    assert "certificate 1 expired at 2027-11-21T09:30:00.000Z" in faults(**GOOD, now=EXPIRY)["/chain"]
    old = pair("old", expires=SOON - timedelta(days=500))
    assert "certificate 2 expired" in faults(GOOD["chain"] + old["chain"], GOOD["key"])["/chain"]


def test_both_texts_are_judged_at_once() -> None:
    assert faults("canary", "canary") == {
        "/chain": "must be certificates in PEM, and nothing else",
        "/key": "must be one private key in PEM, and nothing else",
    }
    expired = pair(expires=SOON - timedelta(days=500))
    assert faults(expired["chain"], GOOD["key"]).keys() == {"/chain", "/key"}


def test_key_and_chain_must_fit() -> None:
    assert faults(GOOD["chain"], pair()["key"]) == {"/key": "is not the key of the chain's first certificate"}
    other = pair("authority")
    assert "is not the key" in faults(other["chain"] + GOOD["chain"], GOOD["key"])["/key"]


@pytest.mark.parametrize(
    ("chain", "detail"),
    [
        (GOOD["chain"] + GOOD["key"], "holds a private key"),
        (GOOD["key"], "holds a private key"),
        (GOOD["chain"].replace("CERTIFICATE", "CERTIFICATE REQUEST"), "must be certificates"),
        (GOOD["chain"].replace("MII", "AAA", 1), "can't be read"),
        (GOOD["chain"].replace("-----END CERTIFICATE-----", ""), "can't be read"),
        (GOOD["chain"][:300] + "\n-----END CERTIFICATE-----", "can't be read"),
        (GOOD["chain"] * (MAX_CHAIN + 1), f"at most {MAX_CHAIN}"),
    ],
)
def test_a_chain_that_is_none_is_refused(chain: str, detail: str) -> None:
    assert detail in faults(chain, GOOD["key"])["/chain"]


@pytest.mark.parametrize(
    ("key", "detail"),
    [
        (pem_key(ec.generate_private_key(ec.SECP256R1()), passphrase=b"canary"), "is encrypted"),
        (GOOD["key"] * 2, "must be one private key"),
        (GOOD["chain"], "must be one private key"),
        (GOOD["key"].replace("MIG", "AAA", 1), "can't be read"),
        (pem_key(ec.generate_private_key(ec.SECP256K1())), "must be RSA of 2048 to 4096 bits"),
        (pem_key(rsa_key(1024)), "must be RSA of 2048 to 4096 bits"),
        (GOOD["key"] + "A" * MAX_KEY_BYTES, f"has more than {MAX_KEY_BYTES} bytes"),
    ],
)
def test_a_key_that_tls_would_not_take_is_refused(key: str, detail: str) -> None:
    assert detail in faults(GOOD["chain"], key)["/key"]


def test_weak_signatures_are_refused_but_for_roots() -> None:
    key = rsa_key(2048)
    weak = said_to_be_by_sha1(pem_certificate(key, issuer="authority"))
    assert "SHA-1" in faults(weak, pem_key(key))["/chain"]
    assert not taken_by_tls(ClientCertificate(chain=weak, key=pem_key(key)))
    root = said_to_be_by_sha1(pem_certificate(key, name="root"))
    assert faults(GOOD["chain"] + root, GOOD["key"]) == {}
    assert taken_by_tls(ClientCertificate(chain=GOOD["chain"] + root, key=GOOD["key"]))


def test_its_bytes_are_bounded() -> None:
    padding = "#" * MAX_CERTIFICATE_BYTES
    assert "at most 32768 are allowed" in faults(GOOD["chain"] + padding, GOOD["key"])[""]


def test_keys_that_take_longer_to_validate_cost_more() -> None:
    assert cost_of_key(GOOD["key"]) < 1
    assert 40 < cost_of_key(pem_key(rsa_key(2048))) < 60
    assert 300 < cost_of_key("x" * 3272) < 400


def test_a_representation_shows_neither() -> None:
    assert repr(ClientCertificate(**GOOD)) == "ClientCertificate(...)"
