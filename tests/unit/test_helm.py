"""The chart renders its values, and refuses unknown or inconsistent ones; needs Helm."""

import fcntl
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest

from plaudit.config import Settings
from tests.support.documents import blocks_of
from tests.support.manifests import (
    CHART,
    PROCESSES,
    RELEASE,
    ROOT,
    VALUES,
    Document,
    containers,
    helm,
    kept,
    rendered,
)
from tests.support.variables import variables
from tests.support.yaml_text import yaml_in
from tests.unit.test_kubernetes import OF_OPERATORS

# Set by the image or the chart, or only used by `plaudit up`.
SETTLED: Final = {
    *("PLAUDIT_HTTP__HOST", "PLAUDIT_HTTP__PORT", "PLAUDIT_METRICS__HOST", "PLAUDIT_METRICS__PORT"),
    *("PLAUDIT_KAFKA__TLS_CA_FILE", "PLAUDIT_KAFKA__TLS_CERT_FILE", "PLAUDIT_KAFKA__TLS_KEY_FILE"),
    *("PLAUDIT_SMTP__TLS_CA_FILE", "PLAUDIT_DATA", "PLAUDIT_BROKER", "PLAUDIT_EMBEDDED__KAFKA_AUTH"),
}
# Go modules, and their folders with the custom resource definitions of operators.
DEFINITIONS: Final = {
    "github.com/kedacore/keda/v2@v2.21.0": "config/crd/bases",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd",
    "github.com/external-secrets/external-secrets@v1.3.2": "config/crds/bases",
}
CUSTOM: Final = ("scaledobjects", "triggerauthentications", "podmonitors", "prometheusrules", "externalsecrets")

OLD, NEW = (f"sha256:{digit * 64}" for digit in "12")


def test_schema_has_every_setting_and_no_secret() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {name for name in schema["properties"]["config"]["properties"] if name.startswith("PLAUDIT_")}
    assert known == {name for name, is_secret in variables(Settings) if not is_secret} - SETTLED


def test_committed_manifests_match_the_chart() -> None:
    """After a change of the chart, run `make manifests`."""

    def by_name(document: Document) -> str:
        return f"{document['kind']}/{document['metadata']['name']}"

    made = rendered(ROOT / "deploy" / "kubernetes" / "values.yaml")
    assert sorted(made.documents, key=by_name) == sorted(kept().documents, key=by_name)


@pytest.mark.parametrize("values", VALUES)
def test_chart_passes_helm_lint(values: str) -> None:
    linted = helm("lint", "--strict", CHART, "--values", VALUES[values])
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workers.replicas=3", "additional properties 'workers' not allowed"),
        ("worker.replica=3", "at '/worker': additional properties 'replica' not allowed"),
        ("worker.replicas=many", "at '/worker/replicas': got string, want integer"),
        (
            "config.PLAUDIT_KAFKA__BOOTSTAP_SERVERS=kafka:9092",
            "additional properties 'PLAUDIT_KAFKA__BOOTSTAP_SERVERS'",
        ),
        ("config.PLAUDIT_MONGO__URI=mongodb://user:secret@host", "additional properties 'PLAUDIT_MONGO__URI'"),
        ("config.PLAUDIT_AUTH__MODE=jwt", "missing properties 'PLAUDIT_AUTH__JWT__ISSUER'"),
        ("externalSecret.enabled=true", "at '/externalSecret/key'"),
        ("externalSecret.enabled=null", "at '/externalSecret': missing property 'enabled'"),
        ("migration.commands=null", "at '/migration': missing property 'commands'"),
        ("networkPolicy=null", "at '': missing property 'networkPolicy'"),
        ("backup.enabled=true", "at '/backup/uri/secret'"),
        ("mailer.replicas=1", "config.PLAUDIT_SMTP__HOST is missing"),
        ("config.PLAUDIT_SMTP__HOST=mail", "config.PLAUDIT_SMTP__SENDER is missing"),
        (
            "keda.enabled=true,keda.worker.maxReplicas=13",
            "maxReplicas is more than PLAUDIT_KAFKA__PARTITIONS",
        ),
    ],
)
def test_invalid_values_are_refused(setting: str, message: str) -> None:
    made = helm("template", RELEASE, CHART, "--set", setting)
    assert made.returncode != 0
    assert message in made.stderr


def test_certificates_are_mounted_at_the_configured_paths() -> None:
    made = rendered(VALUES["tls"])
    settings = made.settings()
    for process in ("api", "worker", "scheduler", "mailer"):
        (only,) = containers(made.named("Deployment", f"{RELEASE}-{process}")["spec"]["template"])
        folders = {mount["mountPath"] for mount in only["volumeMounts"]}
        files = {name: value for name, value in settings.items() if "__TLS_" in name}
        assert len(files) == 4
        assert {str(Path(file).parent) for file in files.values()} < folders
        assert "/etc/plaudit/mongodb" in folders
    keys = {each["parameter"]: each["key"] for each in made.of("TriggerAuthentication")[0]["spec"]["secretTargetRef"]}
    assert keys == {"ca": "authority.pem", "cert": "tls.crt", "key": "tls.key"}


@pytest.mark.long
def test_network_policies_open_issuer_and_mail_server() -> None:
    def opened(values: str, process: str) -> set[str]:
        policy = rendered(VALUES[values]).named("NetworkPolicy", f"{RELEASE}-{process}")
        blocks = [to["ipBlock"]["cidr"] for rule in policy["spec"]["egress"] for to in rule.get("to", [])]
        return set(blocks)

    for process in ("api", "worker", "scheduler", "mailer", "migration"):
        assert "192.0.2.10/32" in opened("issuer", process)
    assert opened("production", "mailer") == {"10.1.0.0/16", "10.2.0.0/16"}
    mail = rendered(VALUES["production"]).named("NetworkPolicy", f"{RELEASE}-api")["spec"]["egress"]
    assert {25, 465, 587} <= {port["port"] for rule in mail for port in rule["ports"]}
    assert "10.3.0.0/16" in opened("production", "api")


def test_unconfigured_servers_are_not_reachable() -> None:
    """The mail server and the trace collector."""

    def opened(*settings: str) -> set[int]:
        policies = rendered(VALUES["minimal"], *settings).of("NetworkPolicy")
        return {port["port"] for policy in policies for rule in policy["spec"]["egress"] for port in rule["ports"]}

    mail, traces = {25, 465, 587}, {4318}
    some = opened()
    assert not some & (mail | traces)
    assert opened("config.PLAUDIT_SMTP__HOST=mail", "config.PLAUDIT_SMTP__SENDER=a@b.example") == some | mail
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        assert opened(f"config.{name}=http://collector:4318") == some | traces


def test_chart_has_the_alerts_of_prometheus() -> None:
    (rules,) = rendered(VALUES["production"]).of("PrometheusRule")
    assert rules["spec"] == yaml_in((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())


def test_backup_alert_uses_the_release_name() -> None:
    made = helm("template", "shop", CHART, "--set", "monitoring.rules=true", "--show-only", "templates/monitoring.yaml")
    rules = [rule for group in yaml_in(made.stdout)["spec"]["groups"] for rule in group["rules"]]
    (expression,) = [rule["expr"] for rule in rules if rule.get("alert") == "PlauditBackupFails"]
    assert set(re.findall(r'cronjob="([\w-]+)"', expression)) == {"shop-backup"}


@pytest.mark.parametrize(("values", "mailers"), [("minimal", 0), ("existing", 0), ("tls", None), ("production", None)])
def test_mailers_run_only_with_a_mail_server(values: str, mailers: int | None) -> None:
    made = rendered(VALUES[values])
    assert made.named("Deployment", f"{RELEASE}-mailer")["spec"].get("replicas") == mailers
    scaled = {rule["metadata"]["name"] for rule in made.of("ScaledObject")}
    assert (f"{RELEASE}-mailer" in scaled) is (mailers is None)


@pytest.mark.parametrize(("partitions", "least", "most"), [(2, 1, 1), (4, 2, 2), (12, 2, 6)])
def test_minimum_replicas_do_not_exceed_the_maximum(partitions: int, least: int, most: int) -> None:
    few = (f"config.PLAUDIT_KAFKA__PARTITIONS={partitions}", "keda.mailer.maxReplicas=1", "keda.mailer.minReplicas=2")
    made = rendered(VALUES["production"], *few)
    bounds = {
        rule["metadata"]["name"]: (rule["spec"]["minReplicaCount"], rule["spec"]["maxReplicaCount"])
        for rule in made.of("ScaledObject")
    }
    assert bounds == {f"{RELEASE}-worker": (least, most), f"{RELEASE}-mailer": (1, 1)}


@pytest.mark.parametrize(
    ("prefix", "topic"), [("null", "plaudit.mail-commands"), ("", "mail-commands"), ("a.", "a.mail-commands")]
)
def test_keda_topics_have_the_configured_prefix(prefix: str, topic: str) -> None:
    settings = ("config.PLAUDIT_KAFKA__PARTITIONS=4", f"config.PLAUDIT_KAFKA__TOPIC_PREFIX={prefix}")
    made = rendered(VALUES["production"], *settings)
    (rule,) = [each for each in made.of("ScaledObject") if each["metadata"]["name"] == f"{RELEASE}-mailer"]
    ((trigger,), most) = ([each["metadata"] for each in rule["spec"]["triggers"]], rule["spec"]["maxReplicaCount"])
    assert (trigger["topic"], trigger["consumerGroup"], most) == (topic, topic, 4)


@pytest.mark.parametrize(
    ("held", "image"),
    [
        (("image.tag=new",), "plaudit:new"),
        (("image.tag=new", "api.image.tag=old"), "plaudit:old"),
        ((f"image.digest={NEW}", "api.image.tag=old"), "plaudit:old"),
        ((f"image.digest={NEW}", f"api.image.digest={OLD}"), f"plaudit@{OLD}"),
    ],
)
def test_facade_image_can_be_pinned_during_an_upgrade(held: tuple[str, ...], image: str) -> None:
    made = rendered(VALUES["minimal"], "image.repository=plaudit", *held)

    def images(kind: str, name: str) -> set[str]:
        return {only["image"] for only in containers(made.named(kind, f"{RELEASE}-{name}")["spec"]["template"])}

    new = {f"plaudit@{NEW}" if "image.digest" in held[0] else "plaudit:new"}
    others = ("worker", "scheduler", "mailer")
    assert [images("Deployment", process) for process in others] == [new] * 3
    assert images("Job", "migration") == new
    assert images("Deployment", "api") == {image}


def test_documented_upgrade_starts_workers_before_the_facade() -> None:
    commands = [command.split() for command in commands_between("Upgrade each part", "Roll back by one version")]
    helms, composes = ([command for command in commands if command[0] == each] for each in ("helm", "docker"))
    assert [any(word.startswith("api.image.tag=") for word in command) for command in helms] == [True, False]
    up = ["up", "-d"]
    assert [command[2:] for command in composes] == [["build"], [*up, "worker", "scheduler", "mailer"], up]


def test_documented_upgrades_force_conflicts() -> None:
    """Helm stops halfway at a field that another client has set since, such as replicas by `kubectl scale`."""
    commands = [
        command for command in commands_between("# Operations", "## What was tested") if command.startswith("helm ")
    ]
    changing = [command for command in commands if command.split()[1] in ("install", "upgrade", "rollback")]
    assert len(changing) > 5
    assert [command for command in changing if "--force-conflicts" not in command] == []


def commands_between(begin: str, end: str) -> list[str]:
    """The commands in docs/operations.md between two texts, each joined to one line, without comments."""
    page = ROOT / "docs" / "operations.md"
    text = page.read_text().partition(begin)[2].partition(end)[0]
    lines = [line for block in blocks_of(page, text) for line in block.text.replace("\\\n", "").splitlines()]
    return [command for command in (line.split("#")[0].strip() for line in lines) if command]


@pytest.mark.parametrize("clients", [("docker compose",), ("helm", "kubectl")])
def test_documented_restore_starts_the_scheduler_last(clients: tuple[str, ...]) -> None:
    """As soon as it starts, a scheduler catches up on runs that the restored lease shows as missed."""

    def starts_reminders(command: str) -> bool:
        if "compose up -d" in command:
            return command.endswith("-d") or "scheduler" in command or "mailer" in command
        nobody = "paused=true" in command or ("scheduler.replicas=0" in command and "mailer.replicas=0" in command)
        return command.startswith("helm upgrade") and not nobody

    commands = [
        command for command in commands_between("## Backup and restore", "## Alerts") if command.startswith(clients)
    ]
    assert [at for at, command in enumerate(commands, start=1) if starts_reminders(command)] == [len(commands)]
    steps = (ROOT / "docs" / "operations.md").read_text().partition("A restore has these steps")[2]
    assert 0 < steps.index("`plaudit reminders") < steps.index("Start the scheduler")


def test_restore_scales_all_but_workers_to_zero() -> None:
    (setting,) = [
        command for command in commands_between("## Backup and restore", "## Alerts") if "api.replicas=0" in command
    ]
    setting = setting.partition("--set ")[2].split()[0]
    made = rendered(VALUES["production"], setting)
    replicas = {
        process: made.named("Deployment", f"{RELEASE}-{process}")["spec"].get("replicas") for process in PROCESSES
    }
    # KEDA sets the number of workers.
    assert replicas == {"api": 0, "worker": None, "scheduler": 0, "mailer": 0}
    assert [rule["metadata"]["name"] for rule in made.of("HorizontalPodAutoscaler", "ScaledObject")] == [
        f"{RELEASE}-worker"
    ]


def test_failed_migration_stays_until_the_next_one() -> None:
    """Helm removes it before the next one. Applied manifests can't change an existing job, so theirs expires."""
    made = rendered(VALUES["minimal"]), kept()
    seconds = [each.named("Job", f"{RELEASE}-migration")["spec"].get("ttlSecondsAfterFinished") for each in made]
    assert seconds == [None, 300]


def test_migration_policy_outlasts_failed_hooks() -> None:
    """If a hook fails or times out, Helm removes earlier hooks with the delete policy `hook-succeeded`."""
    policy = rendered(VALUES["minimal"]).named("NetworkPolicy", f"{RELEASE}-migration")
    assert policy["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"


def test_nothing_runs_during_a_restore() -> None:
    made = rendered(VALUES["restore"])
    # The migration job would write to the empty database.
    assert not made.of("Job")
    assert not [policy for policy in made.of("NetworkPolicy") if policy["metadata"]["name"].endswith("-migration")]
    assert {document["spec"]["replicas"] for document in made.of("Deployment")} == {0}
    assert not made.of("HorizontalPodAutoscaler", "ScaledObject", "PersistentVolumeClaim")
    jobs = {name: made.named("CronJob", f"{RELEASE}-{name}")["spec"] for name in ("backup", "restore")}
    assert all(job["suspend"] for job in jobs.values())
    (only,) = containers(jobs["restore"]["jobTemplate"]["spec"]["template"])
    assert 'file="plaudit-20261101T011700Z.archive.gz"' in only["args"][0]


@pytest.mark.parametrize(("values", "is_warned"), [("minimal", False), ("production", True), ("restore", True)])
def test_notes_warn_that_a_restore_replaces_the_replica_set(values: str, is_warned: bool) -> None:
    assert ("replaces the whole replica set" in notes(VALUES[values])) is is_warned


def test_notes_warn_of_an_ingress_without_trusted_proxies() -> None:
    name = "PLAUDIT_HTTP__TRUSTED_PROXIES"
    assert name in notes(VALUES["minimal"], "ingress.enabled=true")
    assert name not in notes(VALUES["minimal"])
    assert name not in notes(VALUES["production"])
    made = kept()
    assert made.of("Ingress")
    assert json.loads(made.settings()[name])


def notes(values: Path, *others: str) -> str:
    """The notes of an installation with a values file and further values as `a.b=1`."""
    options = [part for other in others for part in ("--set", other)]
    made = helm("install", RELEASE, CHART, "--dry-run=client", "--values", values, *options)
    assert made.returncode == 0, made.stderr
    return made.stdout.partition("\nNOTES:\n")[2]


def script_of(job: str, folder: Path, *options: str) -> str:
    """The shell script of a job, with its temporary files in this folder."""
    made = rendered(VALUES["production"], *options).named("CronJob", f"{RELEASE}-{job}")
    (script,) = containers(made["spec"]["jobTemplate"]["spec"]["template"])[0]["args"]
    return str(script).replace("/tmp/", f"{folder}/")  # noqa: S108 - that of the container


def test_backup_leaves_the_dump_of_another_one_alone(tmp_path: Path) -> None:
    backups = tmp_path / "backup"
    backups.mkdir()
    (backups / "plaudit-20260104T000000Z.archive.gz.part").touch()
    script = script_of("backup", tmp_path)
    with (backups / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {"PATH": os.environ["PATH"], "URI": "mongodb://m"}
        ended = subprocess.run(
            ["sh", "-euc", script], cwd=backups, env=environment, check=False, capture_output=True, text=True
        )
    assert (ended.returncode, ended.stdout) == (1, "Another backup is running, or the volume has no locks\n")
    assert {file.name for file in backups.iterdir()} == {".lock", "plaudit-20260104T000000Z.archive.gz.part"}


def test_restore_without_a_dump_is_refused(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "URI": "mongodb://m"}
    script = script_of("restore", tmp_path, "backup.restore=plaudit-20260104T000000Z.archive.gz")
    ended = subprocess.run(
        ["sh", "-euc", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (1, "There is no dump plaudit-20260104T000000Z.archive.gz\n")


@pytest.mark.parametrize("name", ["", "shop"])
def test_jobs_use_the_existing_service_account(name: str) -> None:
    made = rendered(VALUES["production"], f"serviceAccount.name={name}")
    jobs = [each["spec"] for each in made.documents if each["kind"] == "Job"]
    jobs += [each["spec"]["jobTemplate"]["spec"] for each in made.documents if each["kind"] == "CronJob"]
    assert len(jobs) == 3
    assert [each["template"]["spec"].get("serviceAccountName", "") for each in jobs] == [name] * 3


@pytest.mark.parametrize("has_room", [True, False])
def test_expired_backups_make_room_for_the_next(tmp_path: Path, has_room: bool) -> None:
    script = script_of("backup", tmp_path, "backup.keepDays=7")
    backups, mongodump = tmp_path / "backup", tmp_path / "bin" / "mongodump"
    for folder in (backups, mongodump.parent):
        folder.mkdir()
    # A full volume, with room for two dumps or only one.
    mongodump.write_text(
        '#!/bin/sh\nfor last do :; done\ntest "$(ls | wc -l)" -lt "$ROOM" && touch "${last#--archive=}"'
    )
    mongodump.chmod(0o755)
    old = [f"plaudit-2026010{day}T000000Z.archive.gz" for day in range(1, 4)]
    for name in (*old, "plaudit-20260104T000000Z.archive.gz.part"):
        (backups / name).touch()
        os.utime(backups / name, (0, 0))
    environment = {"PATH": f"{mongodump.parent}:{os.environ['PATH']}", "URI": "mongodb://m", "ROOM": str(1 + has_room)}
    result = subprocess.run(["sh", "-euc", script], cwd=backups, env=environment, check=False)
    (left,) = [file.name for file in backups.iterdir() if file.name != ".lock"]
    # The newest backup is kept, regardless of its age, until the next one is complete.
    assert (result.returncode == 0, left == old[-1]) == (has_room, not has_room)


@pytest.mark.parametrize("values", VALUES)
def test_custom_resources_match_the_operators_schemas(values: str) -> None:
    found = definitions()
    if isinstance(found, str):
        pytest.skip(found)
    for document in rendered(VALUES[values]).documents:
        if document["kind"] in OF_OPERATORS:
            found[f"{document['apiVersion']}/{document['kind']}"].validate(document)


@cache
def definitions() -> dict[str, jsonschema_rs.Draft202012Validator] | str:
    """The schemas of the operators' custom resources by version and kind, from the operators' Go modules; or the
    reason why they are unavailable. Cached, so that a failure isn't retried."""
    if shutil.which("go") is None:
        return "Go isn't installed: it downloads the definitions"
    command = ["go", "mod", "download", "-json", *DEFINITIONS]
    try:
        got = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "the definitions are unavailable: Go's module proxy timed out"
    if got.returncode:
        return f"the definitions are unavailable: {got.stderr[:200]}"
    found = {}
    decoder, left = json.JSONDecoder(), got.stdout.strip()
    while left:
        module, end = decoder.raw_decode(left)
        left = left[end:].strip()
        folder = Path(module["Dir"]) / DEFINITIONS[f"{module['Path']}@{module['Version']}"]
        for file in folder.glob("*.yaml"):
            if file.stem.partition("_")[2] in CUSTOM:
                definition = yaml_in(file.read_text())["spec"]
                for version in definition["versions"]:
                    key = f"{definition['group']}/{version['name']}/{definition['names']['kind']}"
                    found[key] = jsonschema_rs.Draft202012Validator(closed(version["schema"]["openAPIV3Schema"]))
    return found


def closed(schema: Any) -> Any:
    """The same schema, but refusing unknown fields, of which `kubectl` warns."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        inner.setdefault("additionalProperties", False)
    return inner
