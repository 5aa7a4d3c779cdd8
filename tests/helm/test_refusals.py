"""Bad values, and what the chart tells the operator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.helm.chart import Chart, Document, Refused, of_kind

INGEST = (
    "ingest.enabled=true,secrets.ingestKey.name=k,config.ingest.brokers={b:1},"
    "config.ingest.topics={t},config.ingest.client=c"
)
BAD: Sequence[tuple[str, str]] = (
    ("config.cassandra.contact_points=null", "config/cassandra.*contact_points"),
    ("config.cassandra.contact_points={}", "contact_points is empty: name some nodes of your Cassandra"),
    ("config.cassandra.contact_points=one", "config/cassandra/contact_points.*got string, want array"),
    ("config.casandra.port=1", "/config.*'casandra' not allowed"),
    ("config.api.prot=8080", "/config/api.*'prot' not allowed"),
    ("config.api.port=0", "/config/api/port.*minimum: got 0, want 1"),
    ("config.ops.port=http", "/config/ops/port.*got string, want integer"),
    ("config.api.host=127.0.0.1", "config.api.host is 127.0.0.1: nothing outside of the container could reach it"),
    ("config.ops.host=localhost", "config.ops.host is localhost: .* use 0.0.0.0"),
    ("config.membership.drain_seconds=soon", "/config/membership/drain_seconds.*got string, want"),
    ("config.node.capacity_per_minute=many", "/config/node/capacity_per_minute.*got string, want null or integer"),
    ("config.cluster.node_id=me", "config.cluster.node_id is not to be given here: each pod has its own"),
    ("config.api.share_port=true", "config.api.share_port is not to be given here: .* raise api.replicas"),
    ("config.api.admin_key=0123456789abcdef", "it is a secret; put it into a Secret and name that in secrets.keys"),
    ("config.api.tls_client_ca_file=/x", "config.api.tls_client_ca_file is not to be given here: the probes"),
    ("config.secrets.key_ring_file=/x", "put its content into a Secret and name that in secrets.keyRing"),
    ("config.health.port=8082", "config.health.port is not to be given here: a pod is one process"),
    ("config.cassandra.username=me", "put it into a Secret and name that in secrets.cassandraLogin"),
    ("secrets.keys.name=", "secrets.keys.name is empty: make a Secret, kubectl create secret generic"),
    ("secrets.keyRing.unencrypted=false", "secrets.keyRing.name is empty: make a Secret, .* or, for a trial,"),
    ("secrets.keys.name=My_Keys", 'secrets.keys.name is "My_Keys": it must be the name of an object'),
    ("secrets.keys.adminKey=a/b", 'secrets.keys.adminKey is "a/b": it must be the name of an entry'),
    ("secrets.keys.adminKey=", "/secrets/keys/adminKey.*minLength"),
    ("secrets.cassandraTls.cert=tls.crt", "secrets.cassandraTls has one of cert and key: .* name both entries or none"),
    ("secrets.nodeTls.name=n", "config.cluster.tls_server_name is empty, and secrets.nodeTls is given"),
    ("config.ops.tls_cert_file=/x", "put its content into a Secret and name that in secrets.nodeTls"),
    ("api.replicas=0", "/api/replicas.*got 0, want 1"),
    ("node.replicas=two", "/node/replicas.*got string, want integer"),
    ("node.replica=2", "/node.*'replica' not allowed"),
    ("api.maxUnavailable=0", "api.maxUnavailable is 0: no machine could be drained any more"),
    ("node.maxUnavailable=0%", "node.maxUnavailable is 0%: no machine could be drained any more"),
    ("node.maxUnavailable=few", 'node.maxUnavailable is "few": it must be a number of pods or a percentage'),
    ("api.terminationGracePeriodSeconds=20", "api.terminationGracePeriodSeconds is 20, and ending .* may take 29"),
    ("node.terminationGracePeriodSeconds=30", "node.terminationGracePeriodSeconds is 30, .* may take 54"),
    ("api.autoscaling.minReplicas=20", "api.autoscaling.minReplicas is 20, above maxReplicas"),
    ("api.service.type=Ingress", "/api/service/type.*one of 'ClusterIP', 'NodePort', 'LoadBalancer'"),
    ("api.service.port=70000", "/api/service/port.*maximum: got 70,?000, want 65,?535"),
    ("api.extraEnv[0].name=MINUTEHAND_API_PORT", "api.extraEnv has MINUTEHAND_API_PORT: give settings in config"),
    ("node.nodeIdPrefix=West/", 'node.nodeIdPrefix is "West/": it must be of lower-case letters'),
    ("image.digest=latest", 'image.digest is "latest": it must be sha256: and 64 hexadecimal digits'),
    ("image.tag=minutehand:1", 'image.tag is "minutehand:1": it must be an image\'s tag'),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy.*one of 'Always', 'IfNotPresent', 'Never'"),
    ("networkPolicy.receiversExcept={10.0.0.0}", 'receiversExcept is "10.0.0.0": it must be networks with'),
    ("monitoring.serviceMonitor.interval=often", "interval is \"often\": it must be a time as Prometheus writes it"),
    ("spark.jobs.usage.schedule=daily", 'spark.jobs.usage.schedule is "daily": it must be a cron expression'),
    ("spark.jobs.tidy.enabled=true", "'tidy'"),
    ("spark.jobs.archive.enabled=true", "spark.jobs.archive writes to /archive, and no volume is mounted there"),
    ("spark.memory=lots", 'spark.memory is "lots": it must be an amount of memory as Java writes it'),
    ("spark.application.enabled=true", "spark.application.image is empty: name an image"),
    ("replicas=3", "'replicas' not allowed"),
    ("ingest.enabled=true", "secrets.ingestKey.name is empty, and ingest.enabled is true: make a key of the client"),
    ("ingest.enabled=true,secrets.ingestKey.name=k", "config.ingest.brokers is empty, and ingest.enabled is true"),
    (f"{INGEST},secrets.kafkaLogin.name=l", "config.ingest.sasl_mechanism and secrets.kafkaLogin.name go together"),
    (f"{INGEST},secrets.kafkaTls.name=t,secrets.kafkaTls.ca=", "secrets.kafkaTls.ca is empty: name the entry"),
    (f"{INGEST},secrets.kafkaTls.cert=c", "secrets.kafkaTls has one of cert and key"),
    ("ingest.terminationGracePeriodSeconds=20", "ingest.terminationGracePeriodSeconds is 20, .* may take 30"),
    ("config.ingest.host=127.0.0.1", "config.ingest.host is 127.0.0.1"),
    ("secrets.traceCollector.name=c,secrets.traceCollector.authorization=", "secrets.traceCollector names no entry"),
)  # fmt: skip


@pytest.mark.parametrize(("given", "words"), BAD, ids=[given for given, _ in BAD])
def test_a_bad_value_is_refused_with_a_sentence(chart: Chart, given: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        chart.render("minimal", given, show="templates/configmap.yaml")
    said = " ".join(str(refused.value).split())
    assert re.search(words, said), said


@pytest.mark.parametrize(
    "given",
    [
        "spark.jobs.archive.arguments=--output s3a://minutehand/archive",
        "spark.extraVolumeMounts[0].name=archive,spark.extraVolumeMounts[0].mountPath=/archive",
        "spark.extraVolumeMounts[0].name=archive,spark.extraVolumeMounts[0].mountPath=/",
    ],
)
def test_an_archive_goes_to_a_volume_or_an_address(chart: Chart, given: str) -> None:
    documents = chart.render("minimal", "spark.jobs.archive.enabled=true", given, show="templates/spark-jobs.yaml")
    assert len(of_kind(documents, "CronJob")) == 1


def test_the_defaults_alone_say_what_is_missing(chart: Chart) -> None:
    """One thing at a time: Cassandra's address, then the keys."""
    with pytest.raises(Refused, match="contact_points is empty"):
        chart.render(None)
    with pytest.raises(Refused, match=r"secrets\.keys\.name is empty"):
        chart.render(None, "config.cassandra.contact_points={cassandra.example}")


def test_fractions_are_taken_from_files(chart: Chart, tmp_path: Path) -> None:
    """Helm's --set turns them into texts."""
    with pytest.raises(Refused, match="got string, want null or number"):
        chart.render("minimal", "config.membership.drain_seconds=7.5")
    file = tmp_path / "values.yaml"
    file.write_text("config: {membership: {drain_seconds: 7.5}}")
    (map_,) = of_kind(chart.render("minimal", file, show="templates/configmap.yaml"), "ConfigMap")
    assert "drain_seconds = 7.5" in map_["data"]["minutehand.toml"]


def test_longer_drains_need_longer_grace(chart: Chart, rendered: Mapping[str, list[Document]]) -> None:
    with pytest.raises(Refused, match="may take 99"):
        chart.render("minimal", "config.membership.drain_seconds=60", "node.terminationGracePeriodSeconds=98")
    chart.render("minimal", "config.membership.drain_seconds=60", "node.terminationGracePeriodSeconds=99")
    (deployment,) = of_kind(rendered["available"], "Deployment", "-api")
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 88  # 15 + 20 + 0.5 + 42.5 + 10


def test_an_application_over_tls_needs_the_connectors_settings(chart: Chart) -> None:
    with pytest.raises(Refused, match=r"sparkConf lacks spark\.cassandra\.connection\.ssl\.enabled"):
        chart.render(
            "minimal",
            "secrets.cassandraTls.name=cassandra-tls",
            "spark.application.enabled=true",
            "spark.application.image=one",
            "spark.application.arguments={usage}",
        )
