"""Gauges of work that waits in the database: its amount and its age."""

from datetime import UTC, datetime, timedelta

import pytest
import structlog
from aiokafka.admin import NewTopic
from aiokafka.errors import GroupAuthorizationFailedError, SaslAuthenticationFailed
from prometheus_client import Gauge
from structlog.testing import capture_logs

from api.metrics import Gauges
from domain.findings import Level
from messaging import metrics
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.lag import ConsumerLag, Lag
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage import checks
from storage.checks import check_mongo
from storage.database import Database, connect
from storage.leases import REMINDERS, LeaseRepository
from tests.support.app import facade_services
from tests.support.facade import new_id
from tests.support.service import Servers, own_database
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

MINUTE = timedelta(minutes=1)


def value(gauge: Gauge, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(gauge._name, labels)


async def refresh_gauges(database: Database, *, is_known: bool = True) -> None:
    """Refresh the gauges, again if a busy machine exceeds the timeout of a scrape."""
    publisher = Publisher(KafkaConnection("127.0.0.1:1"))

    async def is_mongo_known() -> float | None:
        await Gauges(facade_services(database, publisher)).refresh()
        return value(metrics.STATE_KNOWN, what="mongodb")

    await eventually(is_mongo_known, float(is_known).__eq__)


def is_about(gauge: Gauge, minutes: float, **labels: str) -> bool:
    found = value(gauge, **labels)
    return found is not None and abs(found - 60 * minutes) < 60


@pytest.mark.parametrize(
    ("patience_ms", "text"),
    [(60_000, "3 saved; all can be used"), (0, "too many to check quickly; the first 1 can be used")],
)
async def test_many_templates_do_not_use_up_the_time_of_all_checks(
    database: Database, monkeypatch: pytest.MonkeyPatch, patience_ms: int, text: str
) -> None:
    """The health page would say that MongoDB doesn't answer."""
    monkeypatch.setattr(checks, "_PATIENCE_MS", patience_ms)
    parts = dict.fromkeys(("subject", "text", "html"), "Order {{ order.number }}")
    await database["notificationTemplates"].insert_many(
        [
            {"_id": f"OrderReviewRequest?storeId={id}", "name": "OrderReviewRequest", "storeId": id, **parts}
            | {"languageCode": None}
            for id in "abc"
        ]
    )
    (found,) = [each async for each in check_mongo(database, 21) if each.check == "templates"]
    assert (found.level, found.text) == (Level.OK, text)


async def test_waiting_work_is_measured_with_its_age(database: Database) -> None:
    await refresh_gauges(database)
    for kind in ("reviews", "returns", "verdicts"):
        assert value(metrics.PARKED, kind=kind) == value(metrics.PARKED_AGE, kind=kind) == 0
    for gauge in (metrics.OUTBOX, metrics.OUTBOX_AGE, metrics.MAILS_OWED, metrics.MAILS_OVERDUE):
        assert value(gauge) == 0

    now = datetime.now(UTC)
    for minutes, collection in ((40, "parkedCommands"), (50, "parkedReturns"), (60, "parkedVerdicts")):
        await database[collection].insert_many([{"parkedAt": now - n * MINUTE} for n in (1, minutes)])
    await database["outbox"].insert_many([{"at": now - n * MINUTE, "messages": []} for n in (1, 5)])
    await database["mails"].insert_many([{"dueAt": now - n * MINUTE} for n in (20, -20)])
    await database["mails"].insert_one({"doneAt": now - 90 * MINUTE})
    await refresh_gauges(database)
    for minutes, kind in ((40, "reviews"), (50, "returns"), (60, "verdicts")):
        assert value(metrics.PARKED, kind=kind) == 2
        assert is_about(metrics.PARKED_AGE, minutes, kind=kind)
    assert (value(metrics.OUTBOX), value(metrics.MAILS_OWED)) == (2, 2)
    assert is_about(metrics.OUTBOX_AGE, 5)
    assert is_about(metrics.MAILS_OVERDUE, 20)


async def test_overdue_commands_may_wait_behind_a_backlog(database: Database) -> None:
    await database["parkedReturns"].insert_many([{"parkedAt": datetime.now(UTC) - n * MINUTE} for n in (1, 90)])
    (found,) = [each async for each in check_mongo(database, 21) if each.check == "parked commands"]
    assert (found.level, found.text) == (Level.WARN, "1 overdue")
    assert found.advice.startswith("They wait as long as unread records may contain")
    assert "check that one is running" in found.advice


async def test_reminders_without_scheduler_are_reported(database: Database) -> None:

    async def finding() -> tuple[Level, str]:
        (found,) = [each async for each in check_mongo(database, 21) if each.check == "reminders"]
        return found.level, found.text

    assert await finding() == (Level.OK, "are disabled")
    await database["settings"].insert_one({"_id": "general", "reminder": {"enabled": True}})
    assert await finding() == (Level.WARN, "no scheduler is running, so no reminders are sent")
    await LeaseRepository(database).take(REMINDERS, "a", 30)
    assert await finding() == (Level.OK, "a scheduler is active")
    await LeaseRepository(database).release(REMINDERS, "a")
    assert (await finding())[0] is Level.WARN


async def test_reminders_are_overdue_by_their_schedule(database: Database) -> None:
    leases, collection, now = LeaseRepository(database), database["leases"], datetime.now(UTC)
    await refresh_gauges(database)
    assert str(value(metrics.REMINDERS_OVERDUE)) == "nan"
    await leases.take(REMINDERS, "a", 30)
    await leases.note_schedule(REMINDERS, "* * * * *")
    await refresh_gauges(database)
    # A new minute may have begun just now.
    overdue = value(metrics.REMINDERS_OVERDUE)
    assert overdue is not None
    assert 0 <= overdue < 30

    await collection.update_one({"_id": REMINDERS}, {"$set": {"scheduled": now - 90 * MINUTE}})
    await collection.update_one({"_id": REMINDERS}, {"$set": {"done": now - 30 * MINUTE}})
    await leases.note_schedule(REMINDERS, "* * * * *")
    await refresh_gauges(database)
    assert is_about(metrics.REMINDERS_OVERDUE, 29.5)
    assert abs((value(metrics.REMINDERS_RUN) or 0) - (now - 30 * MINUTE).timestamp()) < 1

    # While disabled nothing is due; enabling it again makes nothing due from the time in between.
    await leases.note_schedule(REMINDERS, None)
    await refresh_gauges(database)
    assert value(metrics.REMINDERS_OVERDUE) == 0
    await leases.note_schedule(REMINDERS, "0 0 1 1 *")
    await refresh_gauges(database)
    assert value(metrics.REMINDERS_OVERDUE) == 0


@pytest.mark.kafka
async def test_deleted_partition_has_no_lag(servers: Servers) -> None:
    connection, names = KafkaConnection(servers.kafka), TopicNames(f"{new_id()}.")
    topics = Topic.ORDER_EVENTS, Topic.STORE_UPDATES
    async with (
        own_database(servers) as database,
        admin_client(connection) as admin,
        ConsumerLag(connection, names, timeout=60) as lag,
    ):
        await admin.create_topics([NewTopic(names.name(topic), 1, 1) for topic in topics])
        services = facade_services(database, Publisher(connection), names, lag=lag)
        gauges = Gauges(services)

        async def with_lag() -> set[str]:
            gauges.asked_at = float("-inf")
            await gauges.refresh()
            gauges_of_lag = (metrics.CONSUMER_LAG, metrics.CONSUMER_LAG_AGE)
            return {topic for topic in topics if all(value(g, topic=topic, partition="0") == 0 for g in gauges_of_lag)}

        await eventually(with_lag, set(topics).__eq__)
        await delete_topic(servers, names.name(Topic.STORE_UPDATES))
        await eventually(with_lag, {Topic.ORDER_EVENTS}.__eq__)


class FailingLag(ConsumerLag):
    """Lag that can't be measured: by default as an account without access to the consumer groups gets it."""

    error: Exception = GroupAuthorizationFailedError("plaudit.order-events")

    async def measure(self, *topics: Topic) -> Lag:
        raise self.error


async def test_missing_authorization_is_logged_once(
    servers: Servers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.metrics.log", structlog.get_logger())
    connection, names = KafkaConnection(servers.kafka), TopicNames("t.")
    lag = FailingLag(connection, names)
    gauges = Gauges(facade_services(database, Publisher(connection), names, lag=lag))
    with capture_logs() as logs:
        for _ in range(2):
            gauges.asked_at = float("-inf")
            await gauges.refresh()
    warnings = [each for each in logs if each["event"] == "Lag can't be measured"]
    assert [(each["log_level"], "GroupAuthorizationFailed" in each["error"]) for each in warnings] == [
        ("warning", True)
    ]


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (GroupAuthorizationFailedError("plaudit.order-events"), 0),
        (ZeroDivisionError(), 0),
        (SaslAuthenticationFailed("plaudit"), 1),
        (BrokerAwayError("Kafka did not return consumer offsets in time"), 1),
    ],
)
async def test_kafka_that_denies_only_the_lag_is_not_away(
    servers: Servers, database: Database, error: Exception, is_away: int
) -> None:
    connection, names = KafkaConnection(servers.kafka), TopicNames("t.")
    lag = FailingLag(connection, names)
    lag.error = error
    await Gauges(facade_services(database, Publisher(connection), names, lag=lag)).refresh()
    assert value(metrics.STATE_KNOWN, what="kafka") == 0
    assert value(metrics.SERVER_AWAY, what="kafka") == is_away


async def test_server_that_answers_again_is_no_longer_away(database: Database) -> None:
    metrics.SERVER_AWAY.labels("mongodb").set(1)
    await refresh_gauges(database)
    assert value(metrics.SERVER_AWAY, what="mongodb") == 0


async def test_unreachable_database_is_away() -> None:
    client, database = connect("mongodb://127.0.0.1:1", "plaudit", timeout=0.2)
    async with client:
        await refresh_gauges(database, is_known=False)
    assert value(metrics.SERVER_AWAY, what="mongodb") == 1


async def test_failed_measurement_is_marked_unknown(database: Database) -> None:
    await refresh_gauges(database)
    assert value(metrics.STATE_KNOWN, what="mongodb") == 1
    # Such a document can result from a faulty restore.
    await database["parkedReturns"].insert_one({"_id": "without a moment"})
    await refresh_gauges(database, is_known=False)
    assert value(metrics.STATE_KNOWN, what="mongodb") == 0
    assert value(metrics.SERVER_AWAY, what="mongodb") == 0
    assert value(metrics.PARKED, kind="returns") is None
