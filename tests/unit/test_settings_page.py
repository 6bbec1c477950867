"""The page of settings matches the models."""

import runpy

from plaudit.config import Settings
from tests.support.documents import ROOT
from tests.support.variables import variables


def test_page_of_settings_is_up_to_date() -> None:
    """Run `make docs` after a change of settings."""
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == runpy.run_path(str(ROOT / "docs" / "write_settings.py"))["settings_page"]()
    assert [name for name, _ in variables(Settings) if f"`{name}`" not in page] == []
    rows = [row for row in page.splitlines() if row.startswith("| `PLAUDIT_")]
    assert [row for row in rows if row.endswith("|  |")] == []
