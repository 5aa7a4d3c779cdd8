"""`make conformance`: schemathesis generates requests from the OpenAPI document, valid and invalid, and sequences of
them, and sends them to whole processes over a real Cassandra: with a client's key, then with the administrator's.

`tests/integration/test_api_conformance` does the same to a server over the store in memory, with a few cases for each
operation; this runs for minutes. It makes all checks except those that no schema can decide: whether a valid-looking
value is accepted (past instants, cursors, URLs), and that a batch answers 200 with the faults of its items. Budgets are
raised, or most answers would be 429. Exits with 1 if there is a finding, which is printed.
"""

import argparse
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from minutehand.client import Callback, Minutehand
from tests.support.cassandra import SuiteCassandra, embedded_cluster
from tests.support.processes import Deployment, deployment

HEAP_MB = 512
BUDGET = 1_000_000
NODE = "alone"
NOT_OF_SCHEMAS = """
[checks]
positive_data_acceptance.enabled = false

[[operations]]
include-operation-id = "create_batch"
checks.negative_data_rejection.enabled = false
"""
ENDING_ALL = ("delete_client", "suspend_client", "drain_node")
"""After one of these all requests would be refused. The integration test sends them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description="Send what the API's document describes.")
    parser.add_argument("--seconds", type=int, default=600, help="with each key")
    parser.add_argument("--examples", type=int, default=50, help="cases for each operation")
    parser.add_argument("--seed", type=int, help="to repeat a run")
    arguments = parser.parse_args()
    tables = {"api": {"client_budget_per_second": BUDGET, "admin_budget_per_second": BUDGET}}
    with (
        tempfile.TemporaryDirectory(prefix="minutehand-conformance-") as scratch,
        embedded_cluster(1, heap_mb=HEAP_MB, java_options=()) as nodes,
    ):
        server = SuiteCassandra(nodes.contact_points, nodes.port, nodes.datacenter, None)
        with deployment(server, Path(scratch), tables=tables) as cluster:
            cluster.start_api()
            cluster.start_node(NODE)
            ended = []
            for name in ("client", "administrator"):
                key = cluster.register(name, poller_quota=1)
                settings = Path(scratch) / f"{name}.toml"
                settings.write_text(_one_of_everything(cluster, name, key) + NOT_OF_SCHEMAS)
                print(f"with the key of {name}", flush=True)
                ended.append(_run(cluster, settings, key if name == "client" else cluster.admin_key, arguments))
    return max(ended)


def _one_of_everything(cluster: Deployment, client_id: str, key: str) -> str:
    """Create what the paths of this client's requests name."""
    callback, now = Callback(url=cluster.receiver.url), datetime.now(UTC)
    with cluster.client(client_id, key) as client:
        schedule = client.schedules.create(callback, delay_seconds=86_400)
        cron = client.crons.put("daily", callback, expression="5 5 * * *", timezone="Europe/Berlin")
        begin, end = (now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=ago) for ago in (3, 2))
        reconciliation = client.reconciliations.create(start=begin, end=end, states=["failed"], action="report")
    with Minutehand(cluster.api_url, cluster.admin_key) as admin:
        scope = admin.client(client_id)
        names = {
            "client_id": client_id,
            "schedule_id": schedule.schedule_id,
            "cron_id": cron.cron_id,
            "reconciliation_id": reconciliation.reconciliation_id,
            "key_id": scope.keys.create().key_id,
            "secret_id": scope.signing_secrets.create().secret_id,
            "node_id": NODE,
        }
    return "[parameters]\n" + "".join(f'"path.{name}" = "{value}"\n' for name, value in names.items())


def _run(cluster: Deployment, settings: Path, key: str, arguments: argparse.Namespace) -> int:
    asked = [
        *("--config-file", str(settings), "run", f"{cluster.api_url}/openapi.json"),
        *("--header", f"Authorization: Bearer {key}"),
        *("--max-time", str(arguments.seconds), "--max-examples", str(arguments.examples)),
        *("--continue-on-failure", "--no-color", "--suppress-health-check", "all", "--generation-database", "none"),
        *(word for operation in ENDING_ALL for word in ("--exclude-operation-id", operation)),
        *(() if arguments.seed is None else ("--seed", str(arguments.seed))),
    ]
    program = Path(sys.executable).with_name("schemathesis")
    return subprocess.run([program, *asked], cwd=settings.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
