"""The chart's settings are the programs' own: every key exists, and our reader accepts what is rendered."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from minutehand.config import FOR_API, FOR_INGEST, FOR_NODE, FOR_STORAGE, TABLES, Settings, load_settings
from minutehand.processes.several import ENDING_SECONDS
from minutehand.reference_pages import defaults
from minutehand.version import VERSION
from scheduler_service.api.http.server import LAST_ANSWERS_SECONDS
from tests.helm.chart import Chart, Document, Refused, of_kind, pod_templates
from tests.helm.mounted import SECRET, start
from tests.support.chart_reference import CHART, written

REQUIRED = {"api": FOR_API, "node": FOR_NODE, "ingest": FOR_INGEST, "migrate": FOR_STORAGE, "spark": FOR_STORAGE}
SECRETS = {
    "api": {"MINUTEHAND_API_ADMIN_KEY_FILE", "MINUTEHAND_CLUSTER_TOKEN_FILE"},
    "node": {"MINUTEHAND_CLUSTER_TOKEN_FILE"},
    "migrate": set(),
    "spark": set(),
}


def component_of(pod: Document) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def settings_of(pod: Document, documents: list[Document], root: Path) -> Settings:
    return load_settings(environment=start(pod, documents, root), required=REQUIRED[component_of(pod)])


def ours(documents: list[Document]) -> dict[str, Document]:
    """Pods that run one of our programs."""
    return {name: pod for name, pod in pod_templates(documents).items() if component_of(pod) in REQUIRED}


def test_every_pod_reads_the_settings_that_it_is_given(documents: list[Document], tmp_path: Path) -> None:
    for number, (name, pod) in enumerate(ours(documents).items()):
        settings = settings_of(pod, documents, tmp_path / str(number))
        component = component_of(pod)
        if component == "ingest":
            assert settings.ingest.host == "0.0.0.0"
            assert settings.ingest.port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        assert settings.cassandra.contact_points != ("127.0.0.1",), name
        if component == "api":
            assert settings.api is not None
            assert settings.api.host == "0.0.0.0"
            assert settings.api.port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        if component == "node":
            assert settings.ops.host == "0.0.0.0"
            assert settings.ops.port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
            assert settings.ops.advertised_host == "10.1.2.3"
            assert (settings.cluster.node_id or "").endswith("shop-minutehand-node-1")


def test_each_pod_gets_the_secrets_that_it_needs_and_no_more(
    rendered: Mapping[str, list[Document]], tmp_path: Path
) -> None:
    for name, pod in ours(rendered["minimal"]).items():
        given = start(pod, rendered["minimal"], tmp_path / name.replace("/", "-"))
        assert {one for one in given if one.endswith("_FILE")} == SECRETS[component_of(pod)], name


def test_cassandras_password_and_certificates_come_from_mounted_secrets(
    rendered: Mapping[str, list[Document]], tmp_path: Path
) -> None:
    for number, pod in enumerate(ours(rendered["secured"]).values()):
        root = tmp_path / str(number)
        storage = settings_of(pod, rendered["secured"], root).cassandra
        files = {
            "username": storage.username_file,
            "password": storage.password_file,
            "ca": storage.tls_ca_file,
            "cert": storage.tls_cert_file,
            "key": storage.tls_key_file,
        }
        entries = {
            "username": "role",
            "password": "secret",
            "ca": "authorities.pem",
            "cert": "tls.crt",
            "key": "tls.key",
        }
        read = {name: Path(path or "").read_text().strip() for name, path in files.items()}
        assert read == {name: SECRET.format(entry) for name, entry in entries.items()}
        assert (storage.port, storage.local_dc) == (9142, "berlin")


def test_only_nodes_get_the_key_of_their_port_and_its_callers_its_authority(
    rendered: Mapping[str, list[Document]], tmp_path: Path
) -> None:
    for number, pod in enumerate(ours(rendered["secured"]).values()):
        settings, component = settings_of(pod, rendered["secured"], tmp_path / str(number)), component_of(pod)
        assert (settings.ops.tls_key_file is not None) == (component == "node")
        assert (settings.cluster.tls_ca_file is not None) == (component in ("api", "node"))
        if component == "node":
            read = [
                Path(file or "").read_text().strip() for file in (settings.ops.tls_cert_file, settings.ops.tls_key_file)
            ]
            assert read == [SECRET.format("tls.crt"), SECRET.format("tls.key")]


def test_certificate_and_key_ring_go_to_the_pods_that_need_them(
    rendered: Mapping[str, list[Document]], tmp_path: Path
) -> None:
    for number, pod in enumerate(ours(rendered["secured"]).values()):
        settings = settings_of(pod, rendered["secured"], tmp_path / str(number))
        component = component_of(pod)
        ring = settings.secrets.key_ring_file
        assert (ring is not None) == (component in ("api", "node"))
        assert ring is None or Path(ring).read_text().strip() == SECRET.format("keys")
        if component == "api":
            assert settings.api is not None
            shown = [
                Path(path or "").read_text().strip() for path in (settings.api.tls_cert_file, settings.api.tls_key_file)
            ]
            assert shown == [SECRET.format("tls.crt"), SECRET.format("tls.key")]
        else:
            assert "api-tls" not in str(pod)


def test_what_a_values_file_sets_arrives(rendered: Mapping[str, list[Document]], tmp_path: Path) -> None:
    pods = ours(rendered["everything"])
    settings = settings_of(pods["Deployment/shop-minutehand-api"], rendered["everything"], tmp_path)
    assert settings.cassandra.queue_bytes == 134_217_728
    assert settings.cassandra.group_commit_delay_seconds == 0.002
    assert settings.logging.level == "debug"
    assert settings.network.check_url("https://10.20.0.1/") is None
    assert settings.network.check_url("http://10.20.0.1/") is not None


def test_the_ingest_gets_kafkas_access_the_clients_key_and_nothing_of_cassandra(
    rendered: Mapping[str, list[Document]], tmp_path: Path
) -> None:
    pod = ours(rendered["everything"])["Deployment/shop-minutehand-ingest"]
    given = settings_of(pod, rendered["everything"], tmp_path)
    settings = given.ingest
    files = {
        "username": settings.username_file,
        "password": settings.password_file,
        "ca.crt": settings.tls_ca_file,
        "tls.crt": settings.tls_cert_file,
        "tls.key": settings.tls_key_file,
    }
    assert {name: Path(path or "").read_text().strip() for name, path in files.items()} == {
        name: SECRET.format(name) for name in files
    }
    assert (settings.key, settings.tls, settings.ca_file) == (SECRET.format("key"), True, None)
    assert settings.sasl_mechanism == "SCRAM-SHA-512"
    assert (settings.brokers, settings.topics) == (("kafka-1.example:9093", "kafka-2.example:9093"), ("orders",))
    assert settings.url == "https://shop-minutehand-api.callbacks.svc:8080"
    assert (given.cassandra.username_file, given.cassandra.tls_ca_file) == (None, None)
    assert not {"cluster-token", "admin-key", "key-ring"} & set(str(pod).split("'"))
    other = ours(rendered["available"])["Deployment/callbacks-ingest"]
    settings = settings_of(other, rendered["available"], tmp_path / "other").ingest
    assert (settings.url, settings.tls) == ("http://callbacks-api.callbacks.svc:80", False)
    assert other["spec"]["terminationGracePeriodSeconds"] >= settings.stop_seconds + ENDING_SECONDS


def test_the_ingest_trusts_the_authority_of_the_apis_certificate(chart: Chart, tmp_path: Path) -> None:
    asked = ["ingest.enabled=true", "secrets.ingestKey.name=k", "config.ingest.client=shop"]
    asked += ["config.ingest.brokers={b:9092}", "config.ingest.topics={orders}"]
    documents = chart.render("secured", *asked)
    settings = settings_of(ours(documents)["Deployment/shop-minutehand-ingest"], documents, tmp_path).ingest
    assert Path(settings.ca_file or "").read_text().strip() == SECRET.format("ca.crt")


def every_default() -> dict[str, dict[str, Any]]:
    return {
        table.name: {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in defaults(table).items()
            if value is not None and name not in table.secrets and (table.name, name) != ("api", "share_port")
        }
        for table in TABLES
    }


def test_every_setting_can_be_given_and_means_the_same(chart: Chart, tmp_path: Path) -> None:
    """All settings at once, each with its own default: whole numbers, texts and lists keep their types."""
    given = every_default()
    for table in ("api", "ops", "ingest"):
        given[table]["host"] = "0.0.0.0"
    given["ops"]["port"], given["ingest"]["port"] = 8081, 8082
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"config": given}))
    (map_,) = of_kind(chart.render("minimal", file, show="templates/configmap.yaml"), "ConfigMap")
    text = map_["data"]["minutehand.toml"]
    assert {name: dict(table) for name, table in tomllib.loads(text).items()} == given
    written_file = tmp_path / "minutehand.toml"
    written_file.write_text(text)
    over = {"MINUTEHAND_API_HOST": "0.0.0.0", "MINUTEHAND_OPS_HOST": "0.0.0.0", "MINUTEHAND_OPS_PORT": "8081"}
    over |= {"MINUTEHAND_INGEST_HOST": "0.0.0.0", "MINUTEHAND_INGEST_PORT": "8082"}
    keys = {"MINUTEHAND_API_ADMIN_KEY": "an-administrators-key", "MINUTEHAND_CLUSTER_TOKEN": "the-token-of-the-cluster"}
    assert load_settings(environment=keys, file=written_file) == load_settings(environment={**keys, **over})


def test_the_charts_own_settings_exist() -> None:
    config = yaml.safe_load((CHART / "values.yaml").read_text())["config"]
    known = {table.name: table.typed_keys().keys() for table in TABLES}
    unknown = {f"{name}.{key}" for name, keys in config.items() for key in keys if key not in known[name]}
    assert unknown == set()


def test_schema_and_readme_are_what_they_are_made_from() -> None:
    stale = [file.name for file, text in written().items() if file.read_text() != text]
    assert stale == [], "write them again: make chart-reference"


def test_the_charts_version_of_the_program_is_the_programs() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == VERSION


def test_grace_covers_the_drain(documents: list[Document], tmp_path: Path) -> None:
    pods = {component_of(pod): pod for pod in ours(documents).values()}
    settings = settings_of(pods["node"], documents, tmp_path / "node")
    membership = settings.membership
    handed_over = membership.drain_seconds + 2 * membership.leave_seconds + 2 * membership.send_margin_seconds
    drain = handed_over + settings.delivery.stop_grace_seconds + ENDING_SECONDS
    assert pods["node"]["spec"]["terminationGracePeriodSeconds"] >= drain
    api = settings_of(pods["api"], documents, tmp_path / "api").api
    assert api is not None
    command = pods["api"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert command[0] == "sleep"
    drain = api.shutdown_delay_seconds + LAST_ANSWERS_SECONDS + api.shutdown_seconds
    needed = float(command[1]) + drain + ENDING_SECONDS
    assert pods["api"]["spec"]["terminationGracePeriodSeconds"] >= needed


def test_nothing_secret_is_a_value() -> None:
    """The chart's values name Secrets and their entries; secret settings among the values are refused."""
    secrets = yaml.safe_load((CHART / "values.yaml").read_text())["secrets"]
    assert all(given["name"] == "" for given in secrets.values())


@pytest.mark.parametrize(
    "place",
    [f"{table.name}.{name}{end}" for table in TABLES for name in sorted(table.secrets) for end in ("", "_file")],
)
def test_a_secret_among_the_settings_is_refused(chart: Chart, place: str) -> None:
    with pytest.raises(Refused) as refused:
        chart.render("minimal", f"config.{place}=a-secret-of-someone", show="templates/configmap.yaml")
    assert f"config.{place} is not to be given here" in str(refused.value)
    assert "a-secret-of-someone" not in str(refused.value)


def test_every_file_among_the_settings_has_its_place_among_the_secrets(chart: Chart) -> None:
    """A path in `config` would name a file that no pod has; `delivery.ca_file` goes with the extra volumes."""
    for table in TABLES:
        for name in table.typed_keys():
            if name.endswith("_file") and (table.name, name) != ("delivery", "ca_file"):
                with pytest.raises(Refused, match=rf"config.{table.name}.{name} is not to be given here"):
                    chart.render("minimal", f"config.{table.name}.{name}=/x", show="templates/configmap.yaml")


def test_values_that_the_readme_names_exist() -> None:
    text = (CHART / "README.md").read_text().partition("<!-- values: begin -->")[0]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for table in TABLES:
        values["config"].setdefault(table.name, {}).update(dict.fromkeys(table.typed_keys(), ""))
    named = re.findall(rf"`((?:{'|'.join(values)})(?:\.\w+)*)`|--set(?:-json)? '?([\w.]+)=", text)
    assert len(named) > 10
    for one in filter(None, (path for pair in named for path in pair)):
        place: Any = values
        for name in one.split("."):
            assert name in place, one
            place = place[name]
