"""The tour of the examples against whole processes."""

import subprocess
import sys
from pathlib import Path

from tests.support.processes import Deployment

ROOT = Path(__file__).parents[2]


def tour(cluster: Deployment, admin_key: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "tour.py", "--url", cluster.api_url, "--admin-key", admin_key],
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
        assert {client.client_id for client in api.clients.list() if client.state != "deleted"} == {"$cron"}
    done = tour(cluster, "not-the-administrators-key")
    assert done.returncode == 1
    assert done.stderr.startswith("not as it should be: ")
