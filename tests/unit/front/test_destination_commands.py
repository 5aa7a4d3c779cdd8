"""Destinations from the SDK and from a shell: what is sent, and that a fault is one sentence."""

import io
import json
from pathlib import Path

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import (
    CloudEvents,
    NewClientCertificate,
    NewDestination,
    NewForwardProxy,
    NewTokenSource,
    Retry,
)
from tests.support.scripted_api import DESTINATION, DESTINATION_FIGURES, Script

ONE = "/v1/clients/shop/destinations/warehouse"
URL = "https://warehouse.example/hooks"
WHOLE = NewDestination(
    url=URL,
    method="PUT",
    headers={"authorization": "Bearer canary"},
    retry=Retry(max_attempts=3),
    max_in_flight=5,
    certificate=NewClientCertificate(chain="canary", key="canary"),
    token=NewTokenSource(client_id="me", client_secret="canary", issuer="https://login.example"),
    proxy=NewForwardProxy(url="http://proxy:3128", username="me", password="canary"),
    cloudevents=CloudEvents(type="a", source="/b"),
)


def told(script: Script) -> list[tuple[str, str, object]]:
    return [
        (one.method, one.url.raw_path.decode(), json.loads(one.content) if one.content else None)
        for one in script.requests
    ]


async def test_both_clients_send_the_same() -> None:
    shown = httpx.Response(200, json=DESTINATION)
    script = Script(*[shown] * 4, httpx.Response(200, json={"items": [DESTINATION]}), httpx.Response(204))
    with script.api() as api:
        destinations = api.client("shop").destinations
        put = destinations.put("warehouse", WHOLE, revision=7)
        assert destinations.get("warehouse") == put
        destinations.pause("warehouse")
        destinations.resume("warehouse")
        assert destinations.list() == (put,)
        destinations.delete("warehouse", revision=7, force=True)
    assert (put.name, put.revision, put.certificate and put.certificate.subject) == ("warehouse", 7, "CN=shop")
    assert [(method, path) for method, path, _ in told(script)] == [
        ("PUT", ONE),
        ("GET", ONE),
        ("POST", f"{ONE}:pause"),
        ("POST", f"{ONE}:resume"),
        ("GET", "/v1/clients/shop/destinations"),
        ("DELETE", f"{ONE}?force=true"),
    ]
    assert script.requests[0].headers["If-Match"] == script.requests[-1].headers["If-Match"] == '"7"'
    waiting = Script(*[shown] * 4, httpx.Response(200, json={"items": [DESTINATION]}), httpx.Response(204))
    async with waiting.async_api() as other:
        same = other.client("shop").destinations
        assert await same.put("warehouse", WHOLE, revision=7) == await same.get("warehouse")
        await same.pause("warehouse")
        await same.resume("warehouse")
        assert await same.list() == (put,)
        await same.delete("warehouse", revision=7, force=True)
    assert told(waiting) == told(script)


def test_what_is_put_is_a_whole_and_shows_no_secret() -> None:
    script = Script(httpx.Response(201, json=DESTINATION))
    with script.api() as api:
        api.client("shop").destinations.put("warehouse", WHOLE, absent=True)
    assert told(script)[0][2] == {
        "url": URL,
        "method": "PUT",
        "headers": {"authorization": "Bearer canary"},
        "retry": {"max_attempts": 3},
        "max_in_flight": 5,
        "certificate": {"chain": "canary", "key": "canary"},
        "token": {"client_id": "me", "client_secret": "canary", "issuer": "https://login.example"},
        "proxy": {"url": "http://proxy:3128", "username": "me", "password": "canary"},
        "cloudevents": {"type": "a", "source": "/b"},
    }
    assert script.requests[0].headers["If-None-Match"] == "*"
    assert "canary" not in f"{WHOLE} {WHOLE.certificate} {WHOLE.token} {WHOLE.proxy}"


def test_a_file_and_options_over_it(script: Script, tmp_path: Path) -> None:
    file, chain, key = tmp_path / "destination.json", tmp_path / "chain.pem", tmp_path / "key.pem"
    token = {"client_id": "me", "client_secret": "canary", "issuer": "https://login.example"}
    file.write_text(json.dumps({"url": "https://old.example", "token": token, "retry": {"cap_seconds": 9}}))
    chain.write_text("the chain")
    key.write_text("the key")
    script.answers = [httpx.Response(200, json=DESTINATION)]
    options = f"--file {file} --method PUT --header X-A:1 --certificate {chain} --certificate-key {key}"
    more = "--max-in-flight 3 --max-attempts 4 --timeout-seconds 2 --revision 7"
    assert failures.run(f"destinations put shop warehouse {URL} {options} {more}".split()) == 0
    assert told(script)[0][2] == {
        "url": URL,
        "token": token,
        "retry": {"cap_seconds": 9, "max_attempts": 4},
        "method": "PUT",
        "headers": {"X-A": "1"},
        "max_in_flight": 3,
        "timeout_seconds": 2.0,
        "certificate": {"chain": "the chain", "key": "the key"},
    }
    assert script.requests[0].headers["If-Match"] == '"7"'


def test_a_topic(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    target = {"cluster": "main", "topic": "orders"}
    topic = {**DESTINATION, "kind": "kafka", "target": target, "url": "kafka://main/orders"}
    script.answers = [httpx.Response(201, json=topic)]
    told_target = json.dumps(target)
    assert failures.run(["destinations", "put", "shop", "warehouse", "--kind", "kafka", "--target", told_target]) == 0
    assert told(script)[0][2] == {"kind": "kafka", "target": target}
    shown = capsys.readouterr().out
    assert "kafka://main/orders" in shown
    assert "POST" not in shown


def test_a_destination_from_standard_input(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"url": URL, "unknown": 1})))
    script.answers = [httpx.Response(201, json=DESTINATION)]
    assert failures.run(["destinations", "put", "shop", "warehouse", "--file", "-", "--absent"]) == 0
    assert told(script)[0][2] == {"url": URL, "unknown": 1}, "it is the API that refuses unknown fields"
    assert script.requests[0].headers["If-None-Match"] == "*"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "Say where calls go"),
        ("--file /nowhere/at/all", "/nowhere/at/all can't be read"),
        ("https://a.example --header nonsense", "is not of the form"),
        ("--kind kafka --target nonsense", "--target is not a JSON object"),
        ("https://a.example --certificate x", "Give --certificate and --certificate-key, or neither"),
        ("https://a.example --certificate x --certificate-key y", "x can't be read"),
    ],
)
def test_what_can_not_be_sent_is_one_sentence(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    assert failures.run(f"destinations put shop warehouse {arguments}".split()) == 1
    assert sentence in capsys.readouterr().err
    assert script.requests == []


@pytest.mark.parametrize("content", [b"[1]", b"{", b"\xff"])
def test_a_file_that_is_no_object_is_one_sentence(
    script: Script, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "destination.json"
    file.write_bytes(content)
    assert failures.run(["destinations", "put", "shop", "warehouse", "--file", str(file)]) == 1
    err = capsys.readouterr().err
    assert "is not" in err
    assert len(err.splitlines()) == 1
    assert script.requests == []


@pytest.mark.parametrize(
    ("arguments", "answer", "wanted"),
    [
        (
            "put shop warehouse https://warehouse.example/hooks --max-per-second 20",
            httpx.Response(201, json=DESTINATION),
            "CN=shop",
        ),
        ("get shop warehouse", httpx.Response(200, json=DESTINATION), "POST https://warehouse.example"),
        ("get shop warehouse", httpx.Response(200, json={**DESTINATION, "figures": DESTINATION_FIGURES}), "half-open"),
        ("list shop", httpx.Response(200, json={"items": [DESTINATION]}), "warehouse"),
        (
            "pause shop warehouse",
            httpx.Response(200, json={**DESTINATION, "paused_at": "2026-11-21T09:30:00.000Z"}),
            "paused since",
        ),
        ("resume shop warehouse", httpx.Response(200, json=DESTINATION), "revision"),
        ("delete shop warehouse", httpx.Response(204), "is deleted"),
    ],
)
def test_text_for_people_and_json_for_programs(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, answer: httpx.Response, wanted: str
) -> None:
    script.answers = [answer, answer]
    command = ["destinations", *arguments.split()]
    assert failures.run(command) == 0
    assert wanted in capsys.readouterr().out
    assert failures.run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) is not None
