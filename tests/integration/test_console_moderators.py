"""The queue in Chromium with signed-in moderators: undoing takes back only one's own decisions."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
from playwright.async_api import Locator, Page

from tests.support.chromium import Watch, chromium, opened, show
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
PATIENCE_S: Final = 120
PERMISSIONS: Final = ("read", "update", "create", "createForOthers")
NO_NEWS: Final = "window.EventSource = class extends EventTarget { close() {} };"
HELD: Final = """const ask = window.fetch;
const holds = {};
window.hold = (path, isSent, told) => {
  const each = (holds[path] = { isSent, told });
  each.begun = new Promise((resolve) => { each.begin = resolve; });
  each.isOver = new Promise((resolve) => { each.end = resolve; });
};
window.begun = (path) => holds[path].begun;
window.letGo = (path) => holds[path].end();
window.fetch = async (address, options) => {
  const each = Object.entries(holds).find(([path, { isUsed }]) => !isUsed && address.endsWith(path))?.[1];
  if (!each) return ask(address, options);
  each.isUsed = true;
  const early = each.isSent && (await ask(address, options));
  each.begin();
  await each.isOver;
  const response = early || (await ask(address, options));
  return each.told ? Response.json(each.told) : response;
};"""
DECISIONS: Final = "/queue/decisions"
ROWS: Final = "/queue/rows"
APPROVE: Final = """(id) => fetch("/console/queue/decisions", {
  method: "POST",
  body: new URLSearchParams({ ids: id, action: "approve", expected: "New", key: crypto.randomUUID() }),
}).then((response) => response.json())"""
NONE_YET: Final[Json] = {"results": []}
"""Answer to a decision that isn't known to have taken effect yet."""


@dataclass(frozen=True)
class Keyed:
    """A service that requires API keys, with the keys of two moderators."""

    service: Service
    ann: str
    bob: str


@pytest.fixture(scope="module")
async def keyed(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Keyed]:
    folder, modes = tmp_path_factory.mktemp("moderators"), {"PLAUDIT_AUTH__MODE": "api_key"}
    async with running_service(servers, folder, **modes) as service:
        options = [each for name in PERMISSIONS for each in ("--permission", f"customerReviews:{name}")]
        keys = [(await service.run("keys", "create", name, *options)).stdout.strip() for name in ("ann", "bob")]
        yield Keyed(service, *keys)


@dataclass(frozen=True)
class Queue:
    """Ann's queue of three reviews of one object, whose events arrive in order.

    It has the page, the ids, the locators of the outcomes, and her colleague Bob's access to the API.
    """

    page: Page
    ids: list[str]
    outcomes: list[Locator]
    bob: Facade

    async def statuses(self) -> list[str]:
        return [(await self.bob.review(id))["reviewStatus"] for id in self.ids]

    async def reject_as_bob(self, at: int) -> None:
        """Have Bob reject another review and wait for the page to show it, after his earlier decisions."""
        await self.bob.moderate("reject", self.ids[at])
        await self.outcomes[at].get_by_text("bob: Rejected.").wait_for()


@asynccontextmanager
async def queue_of(keyed: Keyed, script: str = "") -> AsyncIterator[Queue]:
    word, entity = new_id("word"), new_id()
    address = keyed.service.address
    async with (
        httpx.AsyncClient(base_url=address, timeout=PATIENCE_S, headers={"x-api-key": keyed.bob}) as http,
        chromium() as browser,
        opened(browser, address, Watch()) as page,
    ):
        bob = Facade(http)
        await bob.submit(*(submission(entity, 4, title=word) for _ in range(3)))
        await page.add_init_script(script)
        await page.goto(f"/console/queue?q={word}")
        await page.get_by_label("API key").fill(keyed.ann)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("#list > li.focus").wait_for()
        await page.wait_for_load_state()  # the script runs after the text is there
        ids = await page.locator("#list > li").evaluate_all("rows => rows.map((row) => row.dataset.id)")
        yield Queue(page, ids, [page.locator(f"#r-{id} .outcome") for id in ids], bob)


async def test_undo_spares_decisions_missed_by_a_hidden_page(keyed: Keyed) -> None:
    """Even if it is the same decision; one's own can still be undone."""
    async with queue_of(keyed) as queue:
        page, ids, outcomes, bob = queue.page, queue.ids, queue.outcomes, queue.bob
        for n in range(2):
            await page.keyboard.press("a")
            await outcomes[n].get_by_text("Approved.").wait_for()
        await show(page, is_hidden=True)
        await bob.moderate("reset", ids[1])
        await bob.moderate("approve", ids[1])
        await bob.moderate("reject", ids[2])
        await show(page, is_hidden=False)
        await outcomes[2].get_by_text("Rejected.").wait_for()
        await page.keyboard.press("z")
        await outcomes[1].get_by_text("was faster: it is Approved. Nothing was changed.").wait_for()
        await page.keyboard.press("z")
        await outcomes[0].get_by_text("Undone").wait_for()
        assert await queue.statuses() == ["New", "Approved", "Rejected"]


async def test_undo_spares_decisions_without_events(keyed: Keyed) -> None:
    """By a shortcut, and by the button on the next page."""
    async with queue_of(keyed, NO_NEWS) as queue:
        page, ids, outcomes, bob = queue.page, queue.ids, queue.outcomes, queue.bob
        await page.keyboard.press("a")
        await outcomes[0].get_by_text("Approved.").wait_for()
        await bob.moderate("reset", ids[0])
        await bob.moderate("approve", ids[0])
        await page.keyboard.press("z")
        await outcomes[0].get_by_text("bob was faster: it is Approved. Nothing was changed.").wait_for()
        await page.keyboard.press("j")
        for _ in range(2):
            await page.keyboard.press("a")
        undo = page.get_by_role("button", name="Undo")
        await undo.wait_for()
        await bob.moderate("reset", ids[2])
        await bob.moderate("approve", ids[2])
        await undo.click()
        await page.get_by_text("bob was faster: it is Approved. Nothing was changed.").wait_for()
        assert await queue.statuses() == ["Approved"] * 3


@asynccontextmanager
async def delayed_answer(page: Page, path: str, *, is_sent: bool, told: Json | None = None) -> AsyncIterator[None]:
    """Delay the answer to the next request to a path, sent within the block, until the block ends.

    With `is_sent` the request reaches the service at once, otherwise only at the end. `told` replaces the answer.
    """
    await page.evaluate("([path, isSent, told]) => hold(path, isSent, told)", [path, is_sent, told])
    yield
    await page.evaluate("letGo", path)


async def wait_until_requested(page: Page, path: str) -> None:
    """Wait until the delayed request was made, and with `is_sent` was answered by the service."""
    await page.evaluate("begun", path)


async def test_undo_spares_decisions_of_others_during_own(keyed: Keyed) -> None:
    """Bob's approval precedes Ann's own, whose outcome isn't known by the end of the wait."""
    async with queue_of(keyed, HELD) as queue:
        async with delayed_answer(queue.page, DECISIONS, is_sent=False, told=NONE_YET):
            await queue.page.keyboard.press("a")
            await wait_until_requested(queue.page, DECISIONS)
            await queue.bob.moderate("approve", queue.ids[0])
            await queue.reject_as_bob(1)
        await queue.outcomes[0].get_by_text("bob: Approved.").wait_for()
        await queue.page.keyboard.press("z")
        await queue.outcomes[0].get_by_text("bob was faster: it is Approved. Nothing was changed.").wait_for()
        assert await queue.statuses() == ["Approved", "Rejected", "New"]


async def test_later_decision_of_others_is_shown_despite_late_answer(keyed: Keyed) -> None:
    async with queue_of(keyed, HELD) as queue:
        async with delayed_answer(queue.page, DECISIONS, is_sent=True):
            await queue.page.keyboard.press("a")
            await wait_until_requested(queue.page, DECISIONS)
            await queue.bob.moderate("reject", queue.ids[0])
            await queue.reject_as_bob(1)
        await queue.outcomes[0].get_by_text("bob: Rejected.").wait_for()


async def test_outdated_rows_do_not_override_a_decision(keyed: Keyed) -> None:
    """Requested when the page became visible again, and received after the decision was made."""
    async with queue_of(keyed, HELD) as queue:
        page, outcome = queue.page, queue.outcomes[0]
        async with (
            delayed_answer(page, DECISIONS, is_sent=True, told=NONE_YET),
            delayed_answer(page, ROWS, is_sent=True),
        ):
            await show(page, is_hidden=True)
            await show(page, is_hidden=False)
            await wait_until_requested(page, ROWS)
            await page.keyboard.press("a")
            await wait_until_requested(page, DECISIONS)
        await outcome.get_by_text(re.compile("Accepted|Approved")).wait_for()
        await page.keyboard.press("z")
        await outcome.get_by_text("Undone").wait_for()
        await eventually(queue.statuses, lambda found: found == ["New"] * 3)


async def test_pending_decision_stays_undoable(keyed: Keyed) -> None:
    """The page is hidden meanwhile, and shown again."""
    async with queue_of(keyed) as queue:
        page, outcome = queue.page, queue.outcomes[0]
        await page.route(f"**{DECISIONS}", lambda route: route.fulfill(json=NONE_YET), times=1)
        await page.keyboard.press("a")
        await outcome.get_by_text("Accepted").wait_for()
        await show(page, is_hidden=True)
        async with page.expect_response(f"**{ROWS}"):
            await show(page, is_hidden=False)
        await page.evaluate(APPROVE, queue.ids[0])
        await queue.reject_as_bob(1)
        await outcome.get_by_text("Approved.").wait_for()
        await page.keyboard.press("z")
        await outcome.get_by_text("Undone").wait_for()
        await eventually(queue.statuses, lambda found: found == ["New", "Rejected", "New"])
