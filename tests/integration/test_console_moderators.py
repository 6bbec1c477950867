"""The queue in Chromium with moderators who sign in: whose decision an undoing would take back."""

from __future__ import annotations

import httpx
import pytest

from tests.support.chromium import Watch, chromium, opened, show
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Servers, running_service

pytestmark = pytest.mark.slow
PATIENCE_S = 120
PERMISSIONS = ("read", "update", "create", "createForOthers")


async def test_undoing_takes_back_nobody_elses_decision_that_a_hidden_page_missed(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Though it comes to the same; one's own is undone."""
    word, modes = new_id("word"), {"PLAUDIT_AUTH__MODE": "api_key"}
    async with running_service(servers, tmp_path_factory.mktemp("moderators"), **modes) as service:
        options = [each for name in PERMISSIONS for each in ("--permission", f"customerReviews:{name}")]
        mine, other = [(await service.run("keys", "create", name, *options)).stdout.strip() for name in ("ann", "bob")]
        async with (
            httpx.AsyncClient(base_url=service.address, timeout=PATIENCE_S, headers={"x-api-key": other}) as http,
            chromium() as browser,
            opened(browser, service.address, Watch()) as page,
        ):
            colleague = Facade(http)
            await colleague.submit(*(submission(new_id(), 4, title=word) for _ in range(3)))
            await page.goto(f"/console/queue?q={word}")
            await page.get_by_label("API key").fill(mine)
            await page.get_by_role("button", name="Sign in").click()
            await page.locator("#list > li.focus").wait_for()
            await page.wait_for_load_state()  # its script comes behind its text
            ids = await page.locator("#list > li").evaluate_all("rows => rows.map((row) => row.dataset.id)")
            outcomes = [page.locator(f"#r-{id} .outcome") for id in ids]
            for n in range(2):
                await page.keyboard.press("a")
                await outcomes[n].get_by_text("Approved.").wait_for()
            await show(page, is_hidden=True)
            await colleague.moderate("reset", ids[1])
            await colleague.moderate("approve", ids[1])
            await colleague.moderate("reject", ids[2])
            await show(page, is_hidden=False)
            await outcomes[2].get_by_text("Rejected.").wait_for()
            await page.keyboard.press("z")
            await outcomes[1].get_by_text("was faster: it is Approved. Nothing was changed.").wait_for()
            await page.keyboard.press("z")
            await outcomes[0].get_by_text("Undone").wait_for()
            reviews = [await colleague.review(id) for id in ids]
    assert [each["reviewStatus"] for each in reviews] == ["New", "Approved", "Rejected"]
