"""The example of a kind in a package of its own: installed, found by its entry point, and used for a call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from membership.errors import SettingsInvalid
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.delivery.settings import DeliverySettings, TargetSettings
from poller_cluster.delivery.targets.deliveries import Deliveries
from poller_cluster.delivery.targets.kinds import read_kinds
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.ids import ClientId
from tests.support.delivery import CLOCK, LOOPBACK, attempt

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "target_log"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the package and its metadata, as pip makes them."""
    directory = tmp_path_factory.mktemp("installed")
    command = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([sys.executable, "-m", *command, directory, EXAMPLE], check=True, timeout=120)
    return directory


@pytest.fixture
def settings(tmp_path: Path) -> TargetSettings:
    (tmp_path / "calls").mkdir()
    file = tmp_path / "targets.toml"
    file.write_text(f'[log]\ndirectory = "{tmp_path / "calls"}"\n', encoding="utf-8")
    return TargetSettings(file=str(file))


async def test_its_calls_are_lines_of_a_file(
    installed: Path, settings: TargetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    kinds = read_kinds(settings)
    with pytest.raises(Invalid, match="/file: must be 1 to 64"):
        kinds["log"].judge({"file": "../x"}, client_id=ClientId("shop"))
    judged = kinds["log"].judge({"file": "orders"}, client_id=ClientId("shop"))
    request = CallbackRequest(
        method="POST",
        url=judged.address,
        headers=(("Minutehand-Fence", "7"),),
        body=b'{"order":17}',
        timeout_seconds=10,
        target=TargetCall(kind="log", means=judged.means, schedule_id="id-1"),
    )
    http = DeliveryEngine(clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings())
    deliveries = Deliveries(calls=http, kinds=kinds, clock=CLOCK, grace_seconds=1.0)
    await deliveries.start()
    results = [await attempt(deliveries, request) for _ in range(2)]
    refused = await attempt(deliveries, request, lambda: False)
    await deliveries.stop()
    assert [one.succeeded for one in results] == [True, True]
    assert (refused.error, refused.nothing_sent) == ("not-trusted", True)
    lines = (tmp_path / "calls" / "shop.orders.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"headers": {"Minutehand-Fence": "7"}, "body": '{"order":17}'},
    ] * 2


def test_without_the_package_the_process_says_what_is_missing(settings: TargetSettings) -> None:
    with pytest.raises(SettingsInvalid, match=r"\[log\] is no kind of target that is installed here \(kafka\)"):
        read_kinds(settings)
