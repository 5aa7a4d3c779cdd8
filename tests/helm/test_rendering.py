"""Every template over several values files; each document is validated against Kubernetes' own schemas."""

import functools
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from tests.helm.chart import KUBERNETES, NAMESPACE, RELEASE, VALUES_FILES, Chart, Document, Refused, of_kind
from tests.support.chart_reference import CHART
from tests.support.command_tree import command_tree
from tests.support.prometheus import promtool

CUSTOM = {"ServiceMonitor", "PrometheusRule", "SparkApplication"}
"""Operators' own kinds, whose schemas are not among Kubernetes'."""


@functools.cache
def _schema(version: str, name: str) -> Any:
    place = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict" / f"{name}.json"
    return json.loads(place.read_text())


@functools.cache
def validator(version: str, api_version: str, kind: str) -> jsonschema.Draft202012Validator:
    """Strict: unknown fields are refused. The schemas are those of kubernetes-validate."""
    group, _, rest = api_version.partition("/")
    schema = _schema(version, f"{kind.lower()}-{group.split('.')[0]}{'-' + rest if rest else ''}")
    definitions = Resource.from_contents(_schema(version, "_definitions"))
    return jsonschema.Draft202012Validator(schema, registry=definitions @ Registry())


def faults(document: Document, version: str) -> list[str]:
    of_kind = validator(version, document["apiVersion"], document["kind"])
    where = f"{document['kind']}/{document['metadata']['name']}"
    return [f"{where} {one.json_path}: {one.message}" for one in of_kind.iter_errors(document)]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_document(documents: list[Document], version: str) -> None:
    found = [fault for one in documents if one["kind"] not in CUSTOM for fault in faults(one, version)]
    assert found == []


def test_what_kubernetes_would_refuse_is_found(rendered: Mapping[str, list[Document]]) -> None:
    (deployment,) = of_kind(rendered["minimal"], "Deployment")
    broken = {**deployment, "spec": {**deployment["spec"], "replica": 3, "replicas": "3"}}
    found = faults(broken, KUBERNETES[0])
    assert len(found) == 2
    assert "replica" in "".join(found)


def test_the_oldest_kubernetes_that_the_chart_takes(chart: Chart) -> None:
    assert chart.render("minimal", kubernetes=KUBERNETES[0])
    with pytest.raises(Refused, match="kubeVersion"):
        chart.render("minimal", kubernetes="1.26.15")


@pytest.mark.parametrize("values", VALUES_FILES)
def test_helm_finds_nothing_to_say(chart: Chart, values: str) -> None:
    assert "0 chart(s) failed" in chart.lint(values)


def test_every_template_is_rendered_by_some_values(rendered: Mapping[str, list[Document]]) -> None:
    """Every kind that a template would make occurs in at least one of the renderings."""
    wanted = set()
    for template in CHART.glob("templates/**/*.yaml"):
        wanted |= {line.split()[1] for line in template.read_text().splitlines() if line.startswith("kind: ")}
    assert wanted == {one["kind"] for documents in rendered.values() for one in documents}


def test_no_name_is_given_twice(documents: list[Document]) -> None:
    names = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(names) == len(set(names))


def test_names_stay_names_under_the_longest_release(chart: Chart) -> None:
    """A CronJob's name may have 52 characters, a pod's label 63, and a StatefulSet's revision takes 11 of those."""
    for one in chart.render("everything", release="a" * 53):
        assert len(one["metadata"]["name"]) <= 52, one["metadata"]["name"]


def test_every_object_carries_the_releases_labels(documents: list[Document]) -> None:
    for one in documents:
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


def test_common_labels_are_everywhere(rendered: Mapping[str, list[Document]]) -> None:
    assert all(one["metadata"]["labels"]["team"] == "callbacks" for one in rendered["everything"])


def test_monitors_look_at_ports_that_exist(rendered: Mapping[str, list[Document]]) -> None:
    monitors = of_kind(rendered["everything"], "ServiceMonitor")
    assert {one["metadata"]["labels"]["release"] for one in monitors} == {"prometheus"}
    seen = set()
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [
            one for one in of_kind(rendered["everything"], "Service") if wanted <= one["metadata"]["labels"].items()
        ]
        for endpoint in monitor["spec"]["endpoints"]:
            assert endpoint["path"] == "/metrics"
            assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        seen.add(service["metadata"]["name"])
    assert seen == {"shop-minutehand-api", "shop-minutehand-ingest", "shop-minutehand-node"}


def test_metrics_of_apis_may_have_a_port_of_their_own(chart: Chart) -> None:
    documents = chart.render("secured", "config.api.metrics_port=9100")
    (monitor,) = of_kind(documents, "ServiceMonitor", "-api")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == "metrics"
    assert "scheme" not in endpoint
    (service,) = of_kind(documents, "Service", "-api-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": 9100, "targetPort": "metrics"}]
    (deployment,) = of_kind(documents, "Deployment", "-api")
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert {"name": "metrics", "containerPort": 9100} in ports
    assert [fault for one in documents if one["kind"] not in CUSTOM for fault in faults(one, KUBERNETES[-1])] == []
    for policy in of_kind(documents, "NetworkPolicy", "-api"):
        assert {"port": 9100} in [port for rule in policy["spec"]["ingress"] for port in rule["ports"]]


def test_monitors_speak_tls_where_the_programs_do(rendered: Mapping[str, list[Document]]) -> None:
    (api,) = of_kind(rendered["secured"], "ServiceMonitor", "-api")
    (endpoint,) = api["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "serverName": f"shop-minutehand-api.{NAMESPACE}.svc",
        "ca": {"secret": {"name": "api-tls", "key": "ca.crt"}},
    }
    (api,) = of_kind(rendered["everything"], "ServiceMonitor", "-api")
    assert api["spec"]["endpoints"][0]["tlsConfig"] == {"insecureSkipVerify": True}
    (node,) = of_kind(rendered["secured"], "ServiceMonitor", "-node")
    (endpoint,) = node["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == (
        "https",
        {"serverName": "node.minutehand", "ca": {"secret": {"name": "node-tls", "key": "ca.crt"}}},
    )
    (node,) = of_kind(rendered["everything"], "ServiceMonitor", "-node")
    assert "scheme" not in node["spec"]["endpoints"][0]


def test_two_releases_in_one_prometheus_are_kept_apart(chart: Chart, tmp_path: Path) -> None:
    """Each release's series have a label of it, each selector of its rules asks for that, and each alert has it."""
    plain = yaml.safe_load((CHART / "files/rules/minutehand.yaml").read_text())["groups"]
    for release in ("shop", "other"):
        documents = chart.render("everything", release=release)
        value = f"{NAMESPACE}/{release}"
        for monitor in of_kind(documents, "ServiceMonitor"):
            for endpoint in monitor["spec"]["endpoints"]:
                assert {"targetLabel": "release", "replacement": value} in endpoint["relabelings"]
        (rule,) = of_kind(documents, "PrometheusRule")
        rules = [one for group in rule["spec"]["groups"] for one in group["rules"]]
        for one, before in zip(rules, (one for group in plain for one in group["rules"]), strict=True):
            assert one["labels"] == {**before["labels"], "release": value}
            asked = re.findall(r'(minutehand_\w+)(\{release="[^"]*")?', one["expr"])
            assert asked
            assert {matcher for _, matcher in asked} == {f'{{release="{value}"'}, one["alert"]
            without = one["expr"].replace(f'{{release="{value}",', "{").replace(f'{{release="{value}"}}', "")
            assert without == before["expr"]
        (tmp_path / f"{release}.yaml").write_text(yaml.safe_dump(rule["spec"]))
    content, said = promtool("check", "rules", *sorted(tmp_path.glob("*.yaml")))
    assert content, said


def test_a_release_that_others_scrape_has_the_rules_as_they_are(chart: Chart) -> None:
    documents = chart.render("everything", "monitoring.serviceMonitor.enabled=false")
    (rule,) = of_kind(documents, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/rules/minutehand.yaml").read_text())


def test_alerts_and_dashboard_are_the_files_beside_the_chart(rendered: Mapping[str, list[Document]]) -> None:
    (rule,) = of_kind(rendered["everything"], "PrometheusRule")
    assert all({"alert", "expr"} <= one.keys() for group in rule["spec"]["groups"] for one in group["rules"])
    (dashboard,) = of_kind(rendered["everything"], "ConfigMap", "-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    shown = json.loads(dashboard["data"]["minutehand.json"])
    assert shown == json.loads((CHART / "files/dashboards/minutehand.json").read_text())


def test_the_example_of_an_application_reaches_the_same_cassandra(rendered: Mapping[str, list[Document]]) -> None:
    (one,) = of_kind(rendered["everything"], "SparkApplication")
    assert one["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert {"type", "mode", "image", "mainApplicationFile", "driver", "executor"} <= one["spec"].keys()
    conf = one["spec"]["sparkConf"]
    assert all(isinstance(value, str) for value in conf.values())
    assert conf["spark.cassandra.connection.host"] == "cassandra.example"
    assert conf["spark.cassandra.connection.port"] == "9042"


def test_an_application_logs_in_by_the_shared_secrets(chart: Chart, rendered: Mapping[str, list[Document]]) -> None:
    """The names are those that `spark.io.submitted` reads."""
    (one,) = of_kind(rendered["secured"], "SparkApplication")
    mounted = [
        {"name": name, "path": f"/etc/minutehand/{volume}", "secretType": "Generic"}
        for name, volume in (
            ("cassandra-login", "cassandra-login"),
            ("cassandra-tls", "cassandra-tls"),
            ("ring", "key-ring"),
        )
    ]
    assert one["spec"]["driver"]["secrets"] == one["spec"]["executor"]["secrets"] == mounted
    assert one["spec"]["sparkConf"]["spark.minutehand.secrets.key_ring_file"] == "/etc/minutehand/key-ring/keys"
    ours = "spark.minutehand.cassandra."
    conf = {key.removeprefix(ours): value for key, value in one["spec"]["sparkConf"].items() if key.startswith(ours)}
    assert conf == {
        "username_file": "/etc/minutehand/cassandra-login/role",
        "password_file": "/etc/minutehand/cassandra-login/secret",
        "tls_ca_file": "/etc/minutehand/cassandra-tls/authorities.pem",
        "tls_cert_file": "/etc/minutehand/cassandra-tls/tls.crt",
        "tls_key_file": "/etc/minutehand/cassandra-tls/tls.key",
        "tls_check_hostname": "false",
    }
    assert one["spec"]["sparkConf"]["spark.cassandra.connection.ssl.enabled"] == "true"
    asked = [f"spark.application.{given}" for given in ("enabled=true", "image=one", "arguments={usage}")]
    (plain,) = of_kind(chart.render("minimal", *asked), "SparkApplication")
    assert "secrets" not in {**plain["spec"]["driver"], **plain["spec"]["executor"]}


@pytest.mark.parametrize("values", ["minimal", "secured"])
def test_the_notes_begin_with_three_commands_that_exist(chart: Chart, values: str, tmp_path: Path) -> None:
    notes = chart.notes(values, tmp_path)
    assert [line[0] for line in notes.splitlines() if line[:2] in {"1.", "2.", "3.", "4."}] == ["1", "2", "3"]
    assert f"helm test {RELEASE} --namespace {NAMESPACE}" in notes
    assert ("https://SERVER" in notes) == (values == "secured")
    commands = command_tree().commands
    for group, command in (("clients", "register"), ("keys", "create")):
        assert f"minutehand {group} {command} shop" in notes
        assert command in commands[group].commands
