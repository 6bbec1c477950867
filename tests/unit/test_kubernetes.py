"""The manifests of deploy/kubernetes agree with each other and with the program; `make lint` checks their shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.models import CommandInfo

from messaging.topics import Topic
from plaudit.cli.main import app
from plaudit.config import Settings
from tests.support.variables import variables

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
PROCESSES = ("api", "worker", "scheduler", "mailer")

Document = dict[str, Any]


def documents(*kinds: str) -> list[Document]:
    """All manifests, those of kustomize apart, or those of some kinds."""
    files = [file for file in sorted(FOLDER.glob("*/*.yaml")) if file.name != "kustomization.yaml"]
    found = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [document for document in found if not kinds or document["kind"] in kinds]


def named(kind: str, name: str) -> Document:
    (found,) = (document for document in documents(kind) if document["metadata"]["name"] == name)
    return found


def pods() -> list[Document]:
    """The templates of all pods."""
    return [document["spec"]["template"] for document in documents("Deployment", "Job")]


def container(pod: Document) -> Document:
    (only,) = pod["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def selected(labels: dict[str, str]) -> list[Document]:
    found = [pod for pod in pods() if labels.items() <= pod["metadata"]["labels"].items()]
    assert found, f"nobody has {labels}"
    return found


def port_names(pods: list[Document]) -> set[str]:
    return {port["name"] for pod in pods for port in container(pod).get("ports", [])}


def test_the_configuration_is_one_of_plaudit(monkeypatch: pytest.MonkeyPatch) -> None:
    configured = named("ConfigMap", "plaudit")["data"]
    assert set(configured) <= {name for name, _ in variables(Settings)}
    for name, value in configured.items():
        monkeypatch.setenv(name, value)
    assert Settings().kafka.replication_factor == 3


def test_there_are_no_secrets() -> None:
    secrets = {name for name, is_secret in variables(Settings) if is_secret}
    assert "PLAUDIT_MONGO__URI" in secrets
    assert not secrets & set(named("ConfigMap", "plaudit")["data"])
    assert not documents("Secret")


def test_every_process_is_deployed() -> None:
    deployed = {container(pod)["args"][0] for pod in pods()}
    assert deployed == {*PROCESSES, "init"}
    assert deployed <= {name(command) for command in app.registered_commands}


def name(command: CommandInfo) -> str:
    return str(command.name or getattr(command.callback, "__name__", None))


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: container(pod)["args"][0])
def test_a_pod_has_no_more_than_it_needs(pod: Document) -> None:
    only, spec = container(pod), pod["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    # Kubernetes would add variables like PLAUDIT_API_PORT.
    assert spec["enableServiceLinks"] is False
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert only["resources"]["limits"]["memory"]
    assert only["envFrom"] == [{"configMapRef": {"name": "plaudit"}}, {"secretRef": {"name": "plaudit"}}]
    assert named("ServiceAccount", spec["serviceAccountName"])


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_is_watched_at_a_port_of_its_own(process: str) -> None:
    deployment = named("Deployment", f"plaudit-{process}")
    template = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    only = container(template)
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert set(ports) == ({"http", "metrics"} if process == "api" else {"metrics"})
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert only[probe]["httpGet"]["port"] == ("http" if process == "api" else "metrics")
    # The facade's own port asks who wants to know; this one doesn't.
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    image = (FOLDER.parents[1] / "Dockerfile").read_text()
    for name, port in ports.items():
        assert f"PLAUDIT_{name.upper()}__PORT={port}" in image
    budget = named("PodDisruptionBudget", f"plaudit-{process}")["spec"]
    assert budget["selector"]["matchLabels"] == template["metadata"]["labels"]


def test_addresses_lead_to_ports_of_pods() -> None:
    for service in documents("Service"):
        ports = port_names(selected(service["spec"]["selector"]))
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for ingress in documents("Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                target = path["backend"]["service"]
                offered = named("Service", target["name"])["spec"]["ports"]
                assert target["port"]["name"] in {port["name"] for port in offered}


def test_network_policies_are_about_ports_of_pods() -> None:
    for policy in documents("NetworkPolicy"):
        ports = port_names(selected(policy["spec"]["podSelector"]["matchLabels"]))
        opened = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
        assert opened <= ports


def test_every_backlog_scales_the_process_that_consumes_it() -> None:
    configured = named("ConfigMap", "plaudit")["data"]
    prefix, partitions = (configured[f"PLAUDIT_KAFKA__{name}"] for name in ("TOPIC_PREFIX", "PARTITIONS"))
    scaled: list[tuple[str, str]] = []
    for rule in documents("ScaledObject"):
        target = rule["spec"]["scaleTargetRef"]["name"]
        assert named("Deployment", target)
        assert rule["spec"]["maxReplicaCount"] <= int(partitions)
        for trigger in rule["spec"]["triggers"]:
            told = trigger["metadata"]
            assert told["consumerGroup"] == told["topic"]
            assert told["bootstrapServersFromEnv"] in configured
            scaled.append((told["topic"], target))
    consumers = {topic: "plaudit-worker" for topic in Topic if topic.is_consumed}
    consumers[Topic.MAIL_COMMANDS] = "plaudit-mailer"
    assert sorted(scaled) == sorted((prefix + topic, process) for topic, process in consumers.items())


def test_kustomize_finds_every_file_and_every_target() -> None:
    for folder in ("base", "autoscaling", "ingress"):
        told = yaml.safe_load((FOLDER / folder / "kustomization.yaml").read_text())
        there = {file.name for file in (FOLDER / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert set(told["resources"]) == there
    example = yaml.safe_load((FOLDER / "example" / "kustomization.yaml").read_text())
    for patch in example["patches"]:
        document = named(**patch["target"])
        for operation in yaml.safe_load(patch["patch"]):
            added = operation["op"] == "add"
            assert added or operation["op"] == "replace"
            path = operation["path"]
            assert pointed_at(document, path.rpartition("/")[0] if added else path)
    assert {container(pod)["image"].partition(":")[0] for pod in pods()} == {
        image["name"] for image in example["images"]
    }


def pointed_at(document: Any, pointer: str) -> Any:
    """Resolve a JSON pointer."""
    for step in pointer.removeprefix("/").split("/"):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document
