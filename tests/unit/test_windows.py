"""The tolerated outage durations in docs/operations.md match the code."""

import re
from datetime import timedelta
from pathlib import Path

from api.auth.keys_of_issuer import GRACE_S
from consumers.housekeeping import ABANDONED_AFTER, AWAY_FOR, PARKING_LIMIT
from domain.images import UNUSED_FOR
from domain.mails import RetryPlan
from domain.review_tokens import VALIDITY
from domain.sessions import LIFETIME
from domain.stores import ReminderSettings
from plaudit.auth_settings import JwtSettings
from plaudit.config import SchedulerSettings, Settings, SmtpSettings
from plaudit.server_settings import KafkaSettings
from scheduler.clock import _MAKE_UP_WITHIN
from scheduler.reminders import _WRITING_S
from storage.outbox import OVERDUE
from storage.outcomes import REMEMBERED_SECONDS

DOCS = (Path(__file__).parents[2] / "docs/operations.md").read_text()
TITLE = "## When something is away: an hour, a day, longer"
WINDOWS = {
    "AWAY_FOR": AWAY_FOR,
    "GRACE_S": timedelta(seconds=GRACE_S),
    "LIFETIME": LIFETIME,
    "OVERDUE": OVERDUE,
    "PARKING_LIMIT": PARKING_LIMIT,
    "PLAUDIT_AUTH__JWT__JWKS_LIFETIME": timedelta(seconds=JwtSettings().jwks_lifetime),
    "PLAUDIT_KAFKA__RETENTION_DAYS": timedelta(days=KafkaSettings().retention_days),
    "PLAUDIT_SCHEDULER__LEASE": timedelta(seconds=SchedulerSettings().lease),
    "PLAUDIT_SMTP__RETRY_PAUSE": timedelta(seconds=SmtpSettings().retry_pause),
    "REMEMBERED_SECONDS": timedelta(seconds=REMEMBERED_SECONDS),
    "UNUSED_FOR": UNUSED_FOR,
    "VALIDITY": VALIDITY,
    "_MAKE_UP_WITHIN": _MAKE_UP_WITHIN,
    "give_up_after": RetryPlan().give_up_after,
    "longest_pause": RetryPlan().longest_pause,
    "remember_days": timedelta(days=Settings(kafka=KafkaSettings()).remember_days),
    "reminder.daysInStatus": timedelta(days=ReminderSettings().days_in_status),
    "reminder.maxAgeDays": timedelta(days=ReminderSettings().max_age_days),
}


def test_documented_windows_match_the_code() -> None:
    section = DOCS.partition(f"{TITLE}\n")[2].partition("\n## ")[0]
    documented = {
        (name, timedelta(**{unit if unit.endswith("s") else f"{unit}s": int(number)}))
        for name, number, unit in re.findall(r"`([\w.]+)` \((\d+) (seconds?|minutes?|hours?|days?)\)", section)
    }
    assert documented == set(WINDOWS.items())


def test_transaction_that_writes_mails_is_not_abandoned() -> None:
    assert timedelta(seconds=2 * _WRITING_S) <= ABANDONED_AFTER


def test_every_component_is_documented() -> None:
    rows = re.findall(r"^\| (\w[^|]*) \|", DOCS.partition(TITLE)[2].partition("\n## ")[0], re.MULTILINE)
    assert rows[1:] == [
        *("Kafka", "MongoDB", "Workers stopped", "Mailer or mail gateway", "Issuer (JWKS)", "Image store"),
        *("Scheduler", "You"),
    ]
