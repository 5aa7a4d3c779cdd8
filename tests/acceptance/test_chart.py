"""Starts the chart's pods as processes, with their commands, settings, secrets and probes: these suffice."""

import secrets
import subprocess
import sys
import time
from pathlib import Path

import yaml

from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.helm.chart import chart_or_skip, of_kind, pod_templates
from tests.helm.mounted import start
from tests.support.cassandra import SuiteCassandra

LOOPBACK = {
    "MINUTEHAND_API_HOST": "127.0.0.1",
    "MINUTEHAND_OPS_HOST": "127.0.0.1",
    "MINUTEHAND_OPS_ADVERTISED_HOST": "127.0.0.1",
}
"""A pod listens on its own addresses, which here would be this machine's."""


def test_migration_api_and_nodes_start_as_the_chart_says(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    api_port, ops_port = free_ports(2)
    values = tmp_path / "values.yaml"
    storage = {
        "contact_points": list(cassandra.contact_points),
        "port": cassandra.port,
        "local_dc": cassandra.datacenter,
        "keyspace": f"chart_{secrets.token_hex(4)}",
        "replication_factor": cassandra.replication_factor,
    }
    config = {"cassandra": storage, "api": {"port": api_port}, "ops": {"port": ops_port}}
    values.write_text(yaml.safe_dump({"config": config}))
    documents = chart_or_skip().render("minimal", values)
    pods = {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod for pod in pod_templates(documents).values()}

    def run(component: str) -> Program:
        variables = {**start(pods[component], documents, tmp_path / component), **LOOPBACK}
        arguments = pods[component]["spec"]["containers"][0]["args"]
        return Program(component, arguments, log_file=tmp_path / f"{component}.log", variables=variables)

    migrate = run("migrate")
    deadline = time.monotonic() + 120
    while migrate.exit_code() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    migrate.stop(0)
    assert migrate.exit_code() == 0, migrate.last_words()

    started = {"api": run("api"), "node": run("node")}
    ports = {"api": api_port, "node": ops_port}
    for component, program in started.items():
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = pods[component]["spec"]["containers"][0][probe]["httpGet"]["path"]
            program.await_ready(f"http://127.0.0.1:{ports[component]}{path}")

    (test,) = of_kind(documents, "Pod")
    waiting = test["spec"]["containers"][0]["command"][2]
    addresses = [f"http://127.0.0.1:{port}/readyz" for port in ports.values()]
    done = subprocess.run(
        [sys.executable, "-c", waiting, "10", *addresses], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout

    for component, program in started.items():
        program.stop(pods[component]["spec"]["terminationGracePeriodSeconds"])
        assert program.exit_code() == 0, program.last_words()
