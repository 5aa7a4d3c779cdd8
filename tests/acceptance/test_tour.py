"""The examples' tours against whole processes."""

import subprocess
import sys
from pathlib import Path

from tests.support.processes import Deployment

ROOT = Path(__file__).parents[2]


def tour(cluster: Deployment, admin_key: str) -> subprocess.CompletedProcess[str]:
    return example("tour.py", "--url", cluster.api_url, "--admin-key", admin_key)


def own_corner(cluster: Deployment, key: str) -> subprocess.CompletedProcess[str]:
    return example("own_corner.py", "--url", cluster.api_url, "--client", "shop", "--key", key)


def example(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / name, *options],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_everything_is_as_the_tour_expects(cluster: Deployment) -> None:
    cluster.start_api(processes=2)
    cluster.start_node("one")
    done = tour(cluster, cluster.admin_key)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    said = done.stdout.splitlines()
    assert "the books balance: accepted 14, delivered 8, failed 0, cancelled 6, skipped 0, open 0" in said
    assert said[-1] == "its key is revoked, the client deleted: all as it should be"
    with cluster.admin() as api:
        assert {client.client_id for client in api.clients.list() if client.state != "deleted"} == {"$cron", "$events"}
    done = tour(cluster, "not-the-administrators-key")
    assert done.returncode == 1
    assert done.stderr.startswith("not as it should be: ")


def test_a_client_does_without_an_administrator_what_its_tour_shows(cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    cluster.register("shop", poller_quota=2)
    with cluster.admin() as api:
        manage = api.client("shop").keys.create(scope="manage").key
    before = remaining_state(cluster)
    done = own_corner(cluster, manage)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1] == "what the tour made is taken back: all as it should be"
    assert remaining_state(cluster) == before, "the tour left something behind"
    done = own_corner(cluster, "not-a-key-of-the-client")
    assert done.returncode == 1
    assert done.stderr.startswith("not as it should be: ")


def remaining_state(cluster: Deployment) -> tuple[object, ...]:
    """What a client has besides schedules: valid keys, signing secrets, settings, and whether it is paused."""
    with cluster.admin() as api:
        client = api.client("shop")
        own = client.get()
        keys = {one.key_id for one in client.keys.list() if one.revoked_at is None}
        secrets = {one.secret_id for one in client.signing_secrets.list()}
        return keys, secrets, own.settings, own.paused
