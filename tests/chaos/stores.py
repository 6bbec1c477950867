"""The stores of a run and their settings."""

from typing import Any

from tests.chaos.clients import Http
from tests.chaos.model import CLOSED_STORE, IMPORT_STORE, ONE_EACH_STORE, OPEN_STORE, RULED_STORE, Model
from tests.chaos.outcomes import APPLIED
from tests.chaos.rules import RULES

OPEN_SETTINGS = {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False}
"""Store settings that let everyone submit reviews."""


async def set_up_stores(http: Http, model: Model) -> None:
    """Register the stores and enable reminders."""
    reminder: dict[str, Any] = {
        **{"enabled": True, "cron": "* * * * *", "daysInStatus": 10, "maxEmailsPerCustomer": 2},
        "maxAgeDays": 3_650,  # the clocks jump
    }
    for path, body in (
        (f"/api/stores/{OPEN_STORE}", {"settings": {**OPEN_SETTINGS, "editsKeepStatus": True}}),
        (f"/api/stores/{ONE_EACH_STORE}", {"settings": {**OPEN_SETTINGS, "oneReviewPerCustomer": True}}),
        (f"/api/stores/{RULED_STORE}", {"settings": {**OPEN_SETTINGS, "moderationRules": RULES}}),
        (f"/api/stores/{IMPORT_STORE}", {"settings": {**OPEN_SETTINGS, "moderationRules": RULES}}),
        (f"/api/stores/{CLOSED_STORE}", {"settings": {**OPEN_SETTINGS, "reviewsEnabled": False}}),
        ("/api/settings", {"reminder": reminder}),
    ):
        answer = await http.wait_for("PUT", path, body, key=path)
        assert answer.status == 200, answer
        model.outcomes.expect(answer.command, answer.body["ids"][0], APPLIED)
