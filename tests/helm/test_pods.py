"""The rendered objects: probes, selectors, least privilege, network policies, hooks."""

from collections.abc import Mapping

from tests.helm.chart import Chart, Document, environment, matches, of_kind, pod_templates

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def containers(documents: list[Document]) -> dict[str, Document]:
    return {name: pod["spec"]["containers"][0] for name, pod in pod_templates(documents).items()}


def labels_of(pod: Document) -> Document:
    return dict(pod["metadata"]["labels"])


def test_each_pod_has_one_container(documents: list[Document]) -> None:
    assert all(len(pod["spec"]["containers"]) == 1 for pod in pod_templates(documents).values())


def workloads(documents: list[Document]) -> list[Document]:
    return [one for kind in ("Deployment", "StatefulSet") for one in of_kind(documents, kind)]


def test_probes_ask_the_right_question(documents: list[Document]) -> None:
    """Liveness and start-up probes check the event loop, readiness probes what the process needs; no probe runs a
    command.
    """
    for workload in workloads(documents):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        asked = {probe: container[probe]["httpGet"]["path"] for probe in PROBES}
        assert asked == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
        ports = {port["name"] for port in container["ports"]}
        assert {container[probe]["httpGet"]["port"] for probe in PROBES} <= ports
        assert "cassandra" not in str([container[probe] for probe in ("startupProbe", "livenessProbe")])


def test_probes_speak_tls_where_the_programs_do(rendered: Mapping[str, list[Document]]) -> None:
    for values, documents in rendered.items():
        (api,) = containers(of_kind(documents, "Deployment", "-api")).values()
        (node,) = containers(of_kind(documents, "StatefulSet")).values()
        secured = "MINUTEHAND_API_TLS_CERT_FILE" in environment(api)
        assert secured == (values in ("secured", "everything"))
        assert {api[probe]["httpGet"]["scheme"] for probe in PROBES} == {"HTTPS" if secured else "HTTP"}
        assert ("MINUTEHAND_OPS_TLS_CERT_FILE" in environment(node)) == (values == "secured")
        assert {node[probe]["httpGet"]["scheme"] for probe in PROBES} == {"HTTPS" if values == "secured" else "HTTP"}


def test_a_pause_restarts_no_pod_and_a_wedged_loop_is_found(documents: list[Document]) -> None:
    for workload in workloads(documents):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        live, started = container["livenessProbe"], container["startupProbe"]
        assert 20 <= live["periodSeconds"] * live["failureThreshold"] <= 60
        assert started["periodSeconds"] * started["failureThreshold"] >= 60


def test_no_pod_has_privileges(documents: list[Document]) -> None:
    for name, pod in pod_templates(documents).items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] > 0, name
        security = spec["containers"][0]["securityContext"]
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}, name
    assert all(one["automountServiceAccountToken"] is False for one in of_kind(documents, "ServiceAccount"))
    assert not {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"} & {
        one["kind"] for one in documents
    }


def test_a_service_named_minutehand_adds_no_settings(documents: list[Document]) -> None:
    assert all(pod["spec"]["enableServiceLinks"] is False for pod in pod_templates(documents).values())


def test_every_container_states_its_resources(documents: list[Document]) -> None:
    for name, container in containers(documents).items():
        resources = container["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}, name
        assert "memory" in resources["limits"], name
        assert "cpu" not in resources["limits"], "a throttled node is late"


def test_secrets_are_mounted_as_directories(documents: list[Document]) -> None:
    """A file mounted by subPath is not updated when its Secret changes."""
    for name, pod in pod_templates(documents).items():
        volumes = {one["name"] for one in pod["spec"].get("volumes", [])}
        mounts = pod["spec"]["containers"][0].get("volumeMounts", [])
        assert {one["name"] for one in mounts} == volumes, name
        assert not any("subPath" in one for one in mounts), name
        modes = [one["secret"]["defaultMode"] for one in pod["spec"].get("volumes", []) if "secret" in one]
        assert set(modes) <= {0o440}, name


def test_no_secret_is_in_a_variable(documents: list[Document]) -> None:
    for name, container in containers(documents).items():
        assert "secretKeyRef" not in str(environment(container)), name


def test_no_variable_is_given_twice(documents: list[Document]) -> None:
    for name, container in containers(documents).items():
        assert len(container.get("env", [])) == len(environment(container)), name


def test_a_nodes_name_is_its_pods(documents: list[Document]) -> None:
    (workload,) = of_kind(documents, "StatefulSet")
    container = workload["spec"]["template"]["spec"]["containers"][0]
    variables = environment(container)
    assert variables["MINUTEHAND_CLUSTER_NODE_ID"].endswith("$(POD_NAME)")
    assert variables["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert list(variables).index("POD_NAME") < list(variables).index("MINUTEHAND_CLUSTER_NODE_ID")
    assert container["args"] == ["node", "--processes", "1"]


def test_selectors_match_exactly_their_own_pods(documents: list[Document]) -> None:
    pods = pod_templates(documents)
    for one in documents:
        spec = one.get("spec", {})
        selector = {
            "Service": lambda spec=spec: spec["selector"],
            "Deployment": lambda spec=spec: spec["selector"]["matchLabels"],
            "StatefulSet": lambda spec=spec: spec["selector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec=spec: spec["selector"]["matchLabels"],
        }.get(one["kind"])
        if selector is None:
            continue
        met = {name for name, pod in pods.items() if matches(selector(), labels_of(pod))}
        assert len(met) == 1, (one["kind"], one["metadata"]["name"], met)
        (name,) = met
        assert name.endswith(one["metadata"]["name"].rpartition("-")[2])
        for spread in pods[name]["spec"].get("topologySpreadConstraints", []):
            assert matches(spread["labelSelector"]["matchLabels"], labels_of(pods[name]))


def test_services_lead_to_ports_that_pods_have(documents: list[Document]) -> None:
    pods = pod_templates(documents)
    for service in of_kind(documents, "Service"):
        (pod,) = [one for one in pods.values() if matches(service["spec"]["selector"], labels_of(one))]
        named = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
    (nodes,) = of_kind(documents, "StatefulSet")
    headless = [one for one in of_kind(documents, "Service") if one["spec"].get("clusterIP") == "None"]
    assert nodes["spec"]["serviceName"] in {one["metadata"]["name"] for one in headless}


def test_the_autoscaler_and_the_deployment_do_not_both_decide(rendered: Mapping[str, list[Document]]) -> None:
    for values, documents in rendered.items():
        (deployment,) = of_kind(documents, "Deployment", "-api")
        scalers = of_kind(documents, "HorizontalPodAutoscaler")
        assert bool(scalers) != ("replicas" in deployment["spec"]), values
        for one in scalers:
            assert one["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]


def test_every_pod_has_its_network_policy(documents: list[Document]) -> None:
    policies = of_kind(documents, "NetworkPolicy")
    for name, pod in pod_templates(documents).items():
        labels = labels_of(pod)
        meant = [
            one
            for one in policies
            if matches(one["spec"]["podSelector"]["matchLabels"], labels)
            and all(
                labels[each["key"]] in each["values"] for each in one["spec"]["podSelector"].get("matchExpressions", [])
            )
        ]
        assert len(meant) == 1, name
        assert meant[0]["spec"]["policyTypes"] == ["Ingress", "Egress"]


def reach(policy: Document, port: int) -> bool:
    """Whether any of its egress rules permits a port, at whichever peer."""
    return any({"port": port} in rule.get("ports", []) for rule in policy["spec"]["egress"])


def test_the_network_lets_through_what_is_needed(rendered: Mapping[str, list[Document]]) -> None:
    documents = rendered["everything"]
    policies = {one["metadata"]["name"].rpartition("-")[2]: one for one in of_kind(documents, "NetworkPolicy")}
    assert {name for name, one in policies.items() if reach(one, 9042)} == {"api", "node", "jobs"}
    assert {name for name, one in policies.items() if reach(one, 9093)} == {"ingest"}
    assert {name for name, one in policies.items() if reach(one, 4318)} == {"api", "node"}
    assert {name for name, one in policies.items() if reach(one, 8080)} == {"ingest", "test"}
    assert reach(policies["ingest"], 3128)
    callers = [each for rule in policies["api"]["spec"]["ingress"] for each in rule["from"] if "podSelector" in each]
    components = {each["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for each in callers}
    assert components == {"ingest", "test"}
    assert {name for name, one in policies.items() if reach(one, 8081)} == {"api", "node", "test"}
    blocks = [
        to["ipBlock"] for rule in policies["node"]["spec"]["egress"] for to in rule.get("to", []) if "ipBlock" in to
    ]
    assert {"cidr": "10.20.0.0/16"} in blocks, "what config.network.allow names"
    (world,) = [one for one in blocks if one["cidr"] == "0.0.0.0/0"]
    assert {"10.0.0.0/8", "169.254.0.0/16"} <= set(world["except"])
    assert "ingress" not in policies["jobs"]["spec"]
    assert reach(policies["jobs"], 443), "the store that the archive is written to"
    assert all(rule.get("from") for rule in policies["api"]["spec"]["ingress"])


def test_network_policies_can_be_switched_off(chart: Chart) -> None:
    assert of_kind(chart.render("minimal", "networkPolicy.enabled=false"), "NetworkPolicy") == []


def test_the_migration_needs_nothing_of_the_release(documents: list[Document]) -> None:
    """Before the first installation only the objects of hooks with a lower weight exist."""
    (job,) = [one for one in of_kind(documents, "Job") if one["metadata"]["name"].endswith("-migrate")]
    hook = job["metadata"]["annotations"]
    assert hook["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]
    earlier = {
        (one["kind"], one["metadata"]["name"])
        for one in documents
        if (annotations := one["metadata"].get("annotations", {})).get("helm.sh/hook") == hook["helm.sh/hook"]
        and int(annotations["helm.sh/hook-weight"]) < int(hook["helm.sh/hook-weight"])
    }
    spec = job["spec"]["template"]["spec"]
    needed = {("ConfigMap", one["configMap"]["name"]) for one in spec["volumes"] if "configMap" in one}
    ours = {("ServiceAccount", one["metadata"]["name"]) for one in of_kind(documents, "ServiceAccount")}
    needed |= {("ServiceAccount", spec["serviceAccountName"])} if ours else set()
    assert needed <= earlier


def test_settings_that_change_replace_the_pods(chart: Chart) -> None:
    def marks(*more: str) -> set[str]:
        pods = pod_templates(chart.render("minimal", *more)).values()
        found = (pod["metadata"].get("annotations", {}).get("checksum/config") for pod in pods)
        return {one for one in found if one}

    before, after = marks(), marks("config.logging.level=debug")
    assert len(before) == len(after) == 1
    assert before != after
