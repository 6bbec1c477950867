"""Audit log entries about settings, stores and templates, and the export of the log."""

import csv
import io
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.audit import AuditAction, AuditLog, AuditSearch
from storage.audit_archives import AuditArchives
from storage.database import Database
from storage.indexes import ensure_indexes
from tests.support.facade import Facade, new_id, once, submission
from tests.support.messages import message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

TEMPLATE = "/api/notificationTemplates/OrderReviewRequest"


async def entries(facade: Facade, **query: str) -> list[Any]:
    return list((await facade.get("/api/audit", **query))["results"])


async def test_store_changes_are_logged_with_changed_fields(facade: Facade) -> None:
    store, repeated = new_id("store"), once()
    path = f"/api/stores/{store}"
    await facade.command("PUT", path, {"name": "Photo", "settings": {"reviewsEnabled": True}})
    for _ in range(2):
        await facade.command("PUT", path, {"name": "Photo", "settings": {"purchaseRequired": False}}, repeated)
    await facade.command("PUT", path, {"name": "Photo"})
    changed, registered = await entries(facade, storeId=store)
    assert (registered["kind"], registered["action"]) == ("store", "register")
    assert registered["fields"] == ["name", "settings.reviewsEnabled"]
    assert (changed["action"], changed["fields"]) == ("change", ["settings.purchaseRequired"])
    assert await entries(facade, storeId=store, kind="store", action="register") == [registered]
    assert await entries(facade, storeId=store, kind="template") == []
    assert await entries(facade, storeId=store, until="2020-01-01T00:00:00Z") == []
    assert await entries(facade, storeId=store, since=changed["at"]) == [changed]
    assert await entries(facade, storeId=store, since=changed["at"].replace("Z", "4Z")) == []


@pytest.mark.long
async def test_template_and_settings_changes_are_logged(own_service: Service, own_facade: Facade) -> None:
    store, at = await own_facade.open_store(), datetime.now(UTC).isoformat()
    await own_facade.command("PUT", f"{TEMPLATE}?storeId={store}&languageCode=de", {"subject": "Wie war es?"})
    for _ in range(2):
        await own_facade.command("DELETE", f"{TEMPLATE}?storeId={store}&languageCode=de")
    await own_facade.command("PUT", "/api/settings", {"reminder": {"daysInStatus": 7}, "returnStatuses": None})
    foreign = {"generalSettings": {"ratingCalculationMethod": "wilson"}, "user": "=upstream"}
    await own_service.publish("store-updates", message(foreign, "general"))
    await eventually(lambda: entries(own_facade, kind="settings"), lambda found: len(found) == 2)
    logged = [
        [row[name] for name in ("kind", "action", "storeId", "templateName", "languageCode", "fields", "subject")]
        for row in await entries(own_facade, since=at)
        if row["storeId"] in (store, None)
    ]
    name = "OrderReviewRequest"
    assert logged == [
        ["settings", "change", None, None, None, ["ratingCalculationMethod"], "=upstream"],
        ["settings", "change", None, None, None, ["reminder.daysInStatus"], None],
        ["template", "delete", store, name, "de", [], None],
        ["template", "change", store, name, "de", ["subject"], None],
    ]
    await _exports(own_facade)


async def _exports(facade: Facade) -> None:
    """Check that both formats export every entry, across pages of the log."""
    ids = await facade.submit(*(submission(new_id()) for _ in range(250)))
    await facade.moderate("approve", *ids)
    shown = await entries(facade, take="1000")
    lines = await facade.http.get("/api/audit/export", params={"format": "jsonl"})
    assert lines.headers["content-type"] == "application/jsonl"
    assert [json.loads(line) for line in lines.text.splitlines()] == shown
    table = await facade.http.get("/api/audit/export", params={"kind": "settings"})
    assert 'filename="audit.csv"' in table.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [(row["subject"], row["fields"], row["storeId"]) for row in rows] == [
        ("'=upstream", "ratingCalculationMethod", ""),
        ("", "reminder.daysInStatus", ""),
    ]
    unknown = await facade.http.get("/api/audit/export", params={"kind": "nothing"})
    assert unknown.status_code == 422


@pytest.mark.parametrize(
    "read",
    [
        lambda database: AuditLog(database).every(AuditSearch(), None),
        lambda database: AuditArchives(database).entries_before(datetime(2106, 1, 1, tzinfo=UTC)),
    ],
)
async def test_entries_are_read_a_few_at_a_time(
    database: Database, read: Callable[[Database], AsyncIterator[Any]]
) -> None:
    at, reason = datetime(2026, 1, 1, tzinfo=UTC), "x" * 2_000
    entry: Json = {"at": at, "subject": None, "action": "approve", "storeId": None, "reason": reason, "commandId": None}
    await database["auditLog"].insert_many([dict(entry) for _ in range(2_000)])
    tracemalloc.start()
    try:
        assert sum([1 async for _ in read(database)]) == 2_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


async def test_subject_and_action_are_looked_for_only_since_the_given_time(database: Database) -> None:
    """They have no index of their own."""
    about: Json = {"storeId": None, "reason": None, "commandId": None, "reviewId": "r"}
    start = datetime(2026, 1, 1, tzinfo=UTC)
    entries = [
        {**about, "at": start + timedelta(minutes=n), "subject": f"u{n % 2}", "action": "approve"} for n in range(200)
    ]
    search = AuditSearch(subject="u1", action=AuditAction.APPROVE, since=start + timedelta(minutes=190))
    await ensure_indexes(database, remember_days=21)
    await database["auditLog"].insert_many(entries)
    await database.command("profile", 2)
    assert len(await AuditLog(database).search(search)) == 5
    assert await AuditLog(database).count(search, exact_below=10) == 5
    await database.command("profile", 0)
    looks = await database["system.profile"].find({"ns": f"{database.name}.auditLog"}).to_list()
    assert [look["docsExamined"] for look in looks] == [10, 10]
