"""The declared metrics, and those that the dashboard and the alerts query."""

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from prometheus_client.metrics import MetricWrapperBase
from pymongo import AsyncMongoClient
from pymongo.errors import ServerSelectionTimeoutError
from structlog.testing import capture_logs

from api.web.middleware import problem_of
from consumers.moderation_rules import count_rulings
from domain.delivery import OutgoingMessage
from domain.moderation_rules import NO_RULING, ModerationRule, RuleKind, RuleOutcome, Ruling
from messaging import metrics
from messaging.server_errors import for_log
from messaging.topics import DEAD_LETTER_SUFFIX, Topic
from plaudit.errors import short

ROOT = Path(__file__).parents[2]
QUERIES = ("deploy/grafana/plaudit.json", "deploy/prometheus/alerts.yml")


def exposed_names(family: str, kind: str) -> list[str]:
    """The names of the samples of a family, as queries use them; `kind` is its Prometheus type."""
    match kind:
        case "counter":
            return [f"{family}_total"]
        case "histogram":
            return [f"{family}_bucket", f"{family}_sum", f"{family}_count"]
        case _:
            return [family]


EXPOSED = set(
    chain.from_iterable(
        exposed_names(family.name, family.type)
        for family in metrics.REGISTRY.collect()
        if family.name.startswith(metrics.PREFIX)
    )
)
LABELS = {"topic", "partition", "route", "method", "status", "code", "where", "what", "kind", "outcome", "action"}


@pytest.mark.parametrize("topic", Topic)
@pytest.mark.parametrize("prefix", ["plaudit.", "", "order-"])
def test_topic_label_has_no_prefix(topic: Topic, prefix: str) -> None:
    assert metrics.topic_label(f"{prefix}{topic}") == topic or prefix == "order-"
    assert metrics.topic_label(f"{prefix}{topic}{DEAD_LETTER_SUFFIX}") == metrics.topic_label(f"{prefix}{topic}")
    assert metrics.topic_label(f"{prefix}somebody-elses") == "other"


def test_published_messages_and_dead_letters_are_counted_separately() -> None:
    def count(name: str, **labels: str) -> float:
        return metrics.REGISTRY.get_sample_value(f"plaudit_{name}_total", labels) or 0

    before = count("published_messages", topic="events"), count("dead_letters", topic="events", code="empty")
    letter = OutgoingMessage("p.events.dlq", None, None, [("x-error-code", b"empty")])
    metrics.count_published([OutgoingMessage("p.events", None, b"{}"), letter, letter])
    after = count("published_messages", topic="events"), count("dead_letters", topic="events", code="empty")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 2)


def test_rulings_are_counted_by_winning_outcome() -> None:
    def counts() -> list[float]:
        labels = [{"outcome": outcome.value} for outcome in RuleOutcome]
        return [metrics.REGISTRY.get_sample_value("plaudit_rulings_total", each) or 0 for each in labels]

    approve, hold = (ModerationRule("a", RuleKind.ALWAYS, each) for each in (RuleOutcome.APPROVE, RuleOutcome.HOLD))
    before = counts()
    count_rulings([Ruling((approve,)), Ruling((approve, hold)), NO_RULING, Ruling((hold,))])
    assert [after - each for after, each in zip(counts(), before, strict=True)] == [1, 2, 0]


async def test_logs_have_the_reason_without_the_details_of_pymongo() -> None:
    client: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=1)
    async with client:
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.admin.command("ping")
    primary = 'No replica set members match selector "Primary()"'
    during_election = ServerSelectionTimeoutError(f"{primary}, Timeout: 5.0s, Topology Description: <...>")
    refused = "127.0.0.1:1: [Errno 111] Connect call failed ('127.0.0.1', 1)"
    for error, reason in ((caught.value, refused), (during_election, primary)):
        with capture_logs() as logs:
            metrics.note_wait("scheduler", error)
            problem_of({"path": "/"}, error)
        assert [line["error"] for line in logs] == [f"ServerSelectionTimeoutError: {reason}"] * 2
        assert short(error) == reason


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("one\ntwo"), "ValueError: one"),
        (TimeoutError(), "TimeoutError"),
        (KafkaConnectionError("refused"), "KafkaConnectionError: refused"),
        (ValueError("x" * 1_000), f"ValueError: {'x' * 288}"),
    ],
)
def test_errors_in_logs_are_one_line_with_their_type_once(error: Exception, text: str) -> None:
    assert for_log(error) == text


def test_declared_labels_and_families() -> None:
    declared = [value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase)]
    assert {name for metric in declared if metric is not metrics.BUILD for name in metric._labelnames} == LABELS
    assert {family for metric in declared for family in (f.name for f in metric.collect())} == metrics.FAMILIES


@pytest.mark.parametrize("file", QUERIES)
def test_queried_metrics_are_declared(file: str) -> None:
    queried = set(re.findall(r"\bplaudit_\w+", (ROOT / file).read_text()))
    assert queried
    assert queried <= EXPOSED


def test_dashboard_shows_every_metric() -> None:
    dashboard = json.loads((ROOT / QUERIES[0]).read_text())
    queries = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    queried = {re.sub("_(bucket|count|sum|total|created)$", "", name) for name in re.findall(r"plaudit_\w+", queries)}
    assert queried >= {re.sub("_total$", "", name) for name in metrics.FAMILIES}


def test_operations_page_explains_each_metric() -> None:
    explained = re.findall(r"^\| `(plaudit_\w+)` \|", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    families = [f for f in metrics.REGISTRY.collect() if f.name.startswith(metrics.PREFIX)]
    assert sorted(explained) == sorted(f.name + "_total" * (f.type == "counter") for f in families)
