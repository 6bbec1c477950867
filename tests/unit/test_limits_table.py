"""The limits in docs/security.md match the code."""

import re
from pathlib import Path

import pytest

from api.web.forms import MAX_FORM_BYTES
from api.web.pages import MOST_EXPORTS, MOST_EXPORTS_PER_CLIENT
from console.queue_news import MOST_STREAMS, MOST_STREAMS_PER_CLIENT
from console.sign_in.routes import MOST_EXCHANGES, MOST_EXCHANGES_PER_CLIENT
from messaging.schemas import MAX_ITEMS
from plaudit.http_settings import HttpSettings
from storefront.reviews import FILTERED_S

DOCS = (Path(__file__).parents[2] / "docs/security.md").read_text()
ROWS = [row.split(" | ") for row in re.findall(r"^\| (.* \| .*) \|$", DOCS.partition("## Limits\n")[2], re.MULTILINE)]
BY_SETTING = {
    name: limits
    for _, limits, setting, *_ in ROWS
    for name in re.findall(r"`(?:PLAUDIT_HTTP)?__(MAX_\w+|\w+_TIMEOUT)`", setting)
}


def shown(name: str, value: float) -> str:
    """A limit as the table shows it; the last word of its name decides on the unit."""
    if name.endswith("_TIMEOUT"):
        return f"{value:g} s"
    if not name.endswith("_BYTES"):
        return f"{value:,}"
    return f"{value // 2**20} MiB" if value >= 2**20 else f"{value // 2**10} KiB"


@pytest.mark.parametrize("name", [each.upper() for each in HttpSettings.model_fields if each.startswith("max_")])
def test_each_limiting_setting_is_documented(name: str) -> None:
    assert name in BY_SETTING


@pytest.mark.parametrize("name", BY_SETTING)
def test_documented_limit_is_default_of_setting(name: str) -> None:
    limit = shown(name, getattr(HttpSettings(), name.lower()))
    assert re.search(rf"(?<![\d,]){limit}(?!,?\d)", BY_SETTING[name])


@pytest.mark.parametrize(
    ("row_title", "limit"),
    [
        ("a form of the console", f"{MAX_FORM_BYTES // 2**20} MiB"),
        ("items of an array", f"{MAX_ITEMS:,}"),
        ("exports of the audit log", f"{MOST_EXPORTS}; {MOST_EXPORTS_PER_CLIENT}"),
        ("sign-ins that a process", f"{MOST_EXCHANGES}; {MOST_EXCHANGES_PER_CLIENT}"),
        ("the query for a page of a shop with filters", f"{FILTERED_S:g} s"),
        ("open pages of the queue", f"{MOST_STREAMS}; {MOST_STREAMS_PER_CLIENT}"),
    ],
)
def test_limit_without_setting_matches_code(row_title: str, limit: str) -> None:
    (limits,) = [row[1] for row in ROWS if row[0].startswith(row_title)]
    assert limit in limits
