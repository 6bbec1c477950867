"""The plain manifests and the chart's rendered ones agree with themselves and with the program."""

import json
import tomllib
from functools import cache

import kubernetes_validate
import pytest
from typer.models import CommandInfo

from messaging.topics import Topic
from plaudit.cli.main import app
from plaudit.config import Settings
from tests.support.manifests import (
    CHART,
    PROCESSES,
    RELEASE,
    ROOT,
    VALUES,
    Document,
    Manifests,
    containers,
    kept,
    rendered,
)
from tests.support.variables import variables
from tests.support.yaml_text import yaml_in

OF_OPERATORS = {"ScaledObject", "TriggerAuthentication", "PodMonitor", "PrometheusRule", "ExternalSecret"}
# Objects that an administrator has to create: pods may name them although no manifest has them.
BROUGHT = {"existing": {"ServiceAccount/shop"}}


@pytest.fixture(params=["kept", *VALUES])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    return kept() if request.param == "kept" else rendered(VALUES[request.param])


def port_names(pods: list[Document]) -> set[str]:
    return {port["name"] for pod in pods for only in containers(pod) for port in only.get("ports", [])}


def selected(manifests: Manifests, labels: dict[str, str]) -> list[Document]:
    found = [pod for pod in manifests.pods() if labels.items() <= pod["metadata"]["labels"].items()]
    assert found, f"no pod has {labels}"
    return found


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_objects_are_valid_for_oldest_and_newest_kubernetes(manifests: Manifests, version: str) -> None:
    for document in manifests.documents:
        if document["kind"] not in OF_OPERATORS:
            validate(json.dumps(document), version)


@cache
def validate(document: str, version: str) -> None:
    """Validate a document; cached, since validation is slow and several sets of values render the same documents."""
    kubernetes_validate.validate(json.loads(document), version, strict=True)


def test_settings_are_known_to_plaudit(manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = manifests.settings()
    own = {name for name in settings if name.startswith("PLAUDIT_")}
    assert own <= {name for name, _ in variables(Settings)}
    for name in own:
        monkeypatch.setenv(name, settings[name])
    assert Settings().kafka.replication_factor == 3
    assert Settings().log.format == "json"


def test_no_secrets_in_manifests(manifests: Manifests) -> None:
    secrets = {name for name, is_secret in variables(Settings) if is_secret}
    assert "PLAUDIT_MONGO__URI" in secrets
    assert not secrets & set(manifests.settings())
    assert not manifests.of("Secret")


def test_every_process_is_deployed(manifests: Manifests) -> None:
    deployed = {containers(document["spec"]["template"])[0]["args"][0] for document in manifests.of("Deployment")}
    assert deployed == set(PROCESSES)
    assert deployed <= {name(command) for command in app.registered_commands}


def name(command: CommandInfo) -> str:
    return str(command.name or getattr(command.callback, "__name__", None))


def test_release_is_migrated_before_rollout(manifests: Manifests, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["manifests"] == "restore":
        pytest.skip("no process runs during a restore")
    job = manifests.named("Job", f"{RELEASE}-migration")
    commands = [only["args"] for only in containers(job["spec"]["template"])]
    assert commands == [["init"], ["migrate", "--compatible"]]
    assert {command for command, *_ in commands} <= {name(command) for command in app.registered_commands}
    assert job["spec"]["activeDeadlineSeconds"]
    # The secret of External Secrets doesn't exist before the release does.
    before = "post-install" if manifests.of("ExternalSecret") else "pre-install"
    assert job["metadata"]["annotations"]["helm.sh/hook"] == f"{before},pre-upgrade"
    for only in containers(job["spec"]["template"]):
        assert {each["name"]: each["value"] for each in only["env"]} == manifests.settings()
        assert [list(source) for source in only["envFrom"]] == [["secretRef"]]
    # Nor does the account that the release creates.
    accounts = {document["metadata"]["name"] for document in manifests.of("ServiceAccount")}
    assert job["spec"]["template"]["spec"].get("serviceAccountName", "default") not in accounts


def test_pods_run_with_least_privilege(manifests: Manifests) -> None:
    for pod in manifests.pods():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        # Kubernetes would add variables like PLAUDIT_API_PORT.
        assert spec["enableServiceLinks"] is False
        volumes = {volume["name"] for volume in spec["volumes"]}
        for only in containers(pod):
            assert only["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert only["resources"]["limits"]["memory"]
            assert {mount["name"] for mount in only["volumeMounts"]} == volumes


def test_pods_reference_existing_objects(manifests: Manifests, request: pytest.FixtureRequest) -> None:
    existing = {f"{document['kind']}/{document['metadata']['name']}" for document in manifests.documents}
    existing |= BROUGHT.get(request.node.callspec.params["manifests"], set())
    for document in manifests.of("Deployment"):
        spec = document["spec"]["template"]["spec"]
        assert f"ServiceAccount/{spec['serviceAccountName']}" in existing
        for only in spec["containers"]:
            secret, settings = only["envFrom"]
            assert settings == {"configMapRef": {"name": RELEASE}}
            for made in manifests.of("ExternalSecret"):
                assert made["spec"]["target"] == secret["secretRef"]


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_has_its_own_metrics_port(manifests: Manifests, process: str) -> None:
    deployment = manifests.named("Deployment", f"{RELEASE}-{process}")
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    (only,) = containers(template)
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert set(ports) == ({"http", "metrics"} if process == "api" else {"metrics"})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert only[probe]["httpGet"]["port"] == ("http" if process == "api" else "metrics")
    # The API's own port requires authentication for metrics, the metrics port doesn't. Only one may be configured:
    # otherwise each sample is scraped twice.
    annotations = template["metadata"]["annotations"]
    if manifests.of("PodMonitor"):
        assert "prometheus.io/scrape" not in annotations
    else:
        assert annotations["prometheus.io/port"] == str(ports["metrics"])
    image = (ROOT / "Dockerfile").read_text()
    for port in ports:
        assert f"PLAUDIT_{port.upper()}__PORT={ports[port]}" in image
    budget = manifests.named("PodDisruptionBudget", f"{RELEASE}-{process}")["spec"]
    assert budget["selector"]["matchLabels"] == template["metadata"]["labels"]
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_services_and_ingresses_lead_to_ports_of_pods(manifests: Manifests) -> None:
    for service in manifests.of("Service"):
        ports = port_names(selected(manifests, service["spec"]["selector"]))
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for ingress in manifests.of("Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                target = path["backend"]["service"]
                offered = manifests.named("Service", target["name"])["spec"]["ports"]
                assert target["port"]["name"] in {port["name"] for port in offered}


def test_network_policies_open_only_needed_ports(manifests: Manifests, request: pytest.FixtureRequest) -> None:
    policies = manifests.of("NetworkPolicy")
    guarded = [policy["spec"]["podSelector"]["matchLabels"] for policy in policies]
    if request.node.callspec.params["manifests"] != "existing":
        for pod in manifests.pods():
            assert pod["metadata"]["labels"] in guarded
    for policy in policies:
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        ports = port_names(selected(manifests, policy["spec"]["podSelector"]["matchLabels"]))
        opened = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
        assert opened == ports


def test_each_backlog_scales_its_consumer(manifests: Manifests) -> None:
    scaling = manifests.of("ScaledObject")
    if not scaling:
        pytest.skip("no KEDA in these values")
    settings = manifests.settings()
    prefix, partitions = (settings[f"PLAUDIT_KAFKA__{name}"] for name in ("TOPIC_PREFIX", "PARTITIONS"))
    scaled: list[tuple[str, str]] = []
    for rule in scaling:
        target = rule["spec"]["scaleTargetRef"]["name"]
        # KEDA sets the number of pods.
        assert "replicas" not in manifests.named("Deployment", target)["spec"]
        assert rule["spec"]["maxReplicaCount"] <= int(partitions) // 2
        for trigger in rule["spec"]["triggers"]:
            trigger_metadata = trigger["metadata"]
            assert trigger_metadata["consumerGroup"] == trigger_metadata["topic"]
            assert trigger_metadata["bootstrapServersFromEnv"] in settings
            if authenticated := trigger.get("authenticationRef"):
                assert manifests.named("TriggerAuthentication", authenticated["name"])
            scaled.append((trigger_metadata["topic"], target))
    consumers = {topic: f"{RELEASE}-worker" for topic in Topic if topic.is_consumed}
    consumers[Topic.MAIL_COMMANDS] = f"{RELEASE}-mailer"
    assert sorted(scaled) == sorted((prefix + topic, process) for topic, process in consumers.items())


def test_chart_version_is_program_version() -> None:
    chart = yaml_in((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version
