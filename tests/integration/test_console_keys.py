"""Keyboard shortcuts of the queue in Chromium: decisions that they undo, rows that they select, switching them off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.support.chromium import HEARD, NO_STORAGE, Watch, chromium, opened, until_quiet
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

LATE_NEWS = """window.late = [];
const { addEventListener } = EventSource.prototype;
EventSource.prototype.addEventListener = function (kind, hear) {
  addEventListener.call(this, kind, kind === "decided" ? (event) => late.push(() => hear(event)) : hear);
};"""


@asynccontextmanager
async def queue_of(
    service: Service, facade: Facade, count: int, script: str = ""
) -> AsyncIterator[tuple[Page, list[str], list[Locator]]]:
    """Open a queue of `count` reviews; yields the page, their ids and the locators of their outcomes."""
    word = new_id("word")
    ids = await facade.submit(*(submission(new_id(), 4, title=word) for _ in range(count)))
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.add_init_script(script)
        await page.goto(f"/console/queue?q={word}")
        listed = page.locator("#list > li")
        ids = [await listed.nth(at).get_attribute("data-id") or "" for at in range(count)]
        yield page, ids, [page.locator(f"#r-{id} .outcome") for id in ids]


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def press_for(page: Page, outcome: Locator, text: str, *keys: str) -> None:
    """Press keys, and wait until the outcome has this text."""
    await press(page, *keys)
    await outcome.get_by_text(text).wait_for()


async def approve_again(facade: Facade, id: str, outcome: Locator) -> None:
    """Reset and approve a review as somebody else, until the page shows it."""
    for action, status in (("reset", "New"), ("approve", "Approved")):
        await facade.moderate(action, id)
        await outcome.get_by_text(f"Somebody else: {status}.").wait_for()


async def statuses(facade: Facade, ids: list[str]) -> list[str]:
    return [(await facade.review(id))["reviewStatus"] for id in ids]


async def hold_back(page: Page, action: str) -> asyncio.Event:
    """Hold back decisions of this kind until the event is set."""
    gate = asyncio.Event()

    async def decide(route: Route) -> None:
        if f"action={action}" in (route.request.post_data or ""):
            await gate.wait()
        await route.continue_()

    await page.route("**/queue/decisions", decide)
    return gate


@pytest.mark.parametrize("count", [3, 2])
async def test_undo_takes_back_last_decision_not_last_answer(service: Service, facade: Facade, count: int) -> None:
    """Also if it was the last of its page, and the next page offers the undo."""
    async with queue_of(service, facade, count) as (page, ids, outcomes):
        gate = await hold_back(page, "approve")
        await press_for(page, outcomes[1], "Rejected", "a", "r", "1")
        gate.set()
        if count == 3:
            await outcomes[0].get_by_text("Approved.").wait_for()
            await press_for(page, outcomes[1], "Undone", "z")
        else:
            await page.get_by_text("No waiting review matches these filters.").wait_for()
            await page.wait_for_load_state()  # the script runs after the text is there
            await press(page, "z")
        # A busy machine may take longer than the page waits.
        await eventually(lambda: statuses(facade, ids[:2]), lambda found: found == ["Approved", "New"])


@pytest.mark.parametrize("way", ["loaded anew", "a review and back"])
async def test_undo_works_after_leaving_the_page(service: Service, facade: Facade, way: str) -> None:
    """With nothing to undo, the shortcut reports that."""
    async with queue_of(service, facade, 3) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "There is nothing to undo.", "z")
        await press_for(page, outcomes[0], "Approved.", "a")
        if way == "loaded anew":
            await page.reload()
        else:
            await press(page, "o")
            await page.wait_for_url("**/reviews/*")
            await page.go_back()
        await page.locator("html.scripted").wait_for()
        await page.get_by_role("button", name="Undo").wait_for()
        await press(page, "z")
        await page.locator(f"#r-{ids[0]}").wait_for()
    assert await statuses(facade, ids) == ["New"] * 3


@pytest.mark.parametrize("by", ["key", "link"])
async def test_step_back_after_a_deletion_leads_to_the_next_row(service: Service, facade: Facade, by: str) -> None:
    """Into view, also if others have decided about the rows above it meanwhile."""
    async with queue_of(service, facade, 40) as (page, ids, _):
        if by == "link":
            await page.locator(f"#r-{ids[30]}").get_by_role("link", name="open").click()
        else:
            await press(page, *("j" * 30), "o")
        await page.wait_for_url(f"**/reviews/{ids[30]}")
        await page.locator("summary", has_text="Delete permanently").click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.wait_for_url("**/console/reviews?done=*")
        await facade.moderate("approve", *ids[:20])
        for _ in range(2):
            await page.go_back()
        row = page.locator(f"#r-{ids[31]}")
        await expect(row).to_be_focused()
        await until_quiet(page)
        await expect(row).to_be_in_viewport(ratio=1)


async def test_two_undos_take_back_the_last_two_decisions(service: Service, facade: Facade) -> None:
    """While the decisions are still being sent."""
    async with queue_of(service, facade, 4) as (page, ids, outcomes):
        gate = await hold_back(page, "approve")
        await press(page, "r", "1", "a", "r", "2", "z", "z")
        gate.set()
        for at in (1, 2):
            await outcomes[at].get_by_text("Undone").wait_for()
    assert await statuses(facade, ids) == ["Rejected", "New", "New", "New"]


async def test_context_follows_an_undo(service: Service, facade: Facade) -> None:
    """It would offer to keep an approval that isn't there any more."""
    async with queue_of(service, facade, 2) as (page, _, outcomes):
        approve, keep = (page.locator("#context").get_by_role("button", name=name) for name in ("Approve", "Keep"))
        await press_for(page, outcomes[0], "Approved.", "a")
        await press(page, "k")
        await keep.wait_for()
        await press_for(page, outcomes[0], "Undone", "z")
        await approve.wait_for()


async def test_click_instead_of_a_reason_keeps_its_result(service: Service, facade: Facade) -> None:
    """The next key, which would have chosen the reason, cleared it."""
    async with queue_of(service, facade, 2) as (page, _, outcomes):
        await press_for(page, outcomes[0], "Reject: 1", "r")
        await page.locator("#context").get_by_role("button", name="Approve").click()
        await outcomes[0].get_by_text("Approved.").wait_for()
        await press(page, "k")
        await expect(outcomes[0]).to_have_text("Approved.")


async def test_failed_decision_is_not_undone(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 3) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        await page.route("**/queue/decisions", lambda route: route.abort())
        await press_for(page, outcomes[1], "The service is unavailable.", "a")
        await page.unroute("**/queue/decisions")
        await press_for(page, outcomes[0], "Undone", "z")
    assert await statuses(facade, ids) == ["New"] * 3


@pytest.mark.parametrize("by", ["key", "button"])
async def test_failed_last_decision_holds_the_next_page(service: Service, facade: Facade, by: str) -> None:
    """The next page names the decision that it can undo."""
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        gate = await hold_back(page, "approve")
        await press(page, "a")
        await facade.moderate("reject", ids[1])
        gate.set()
        await outcomes[1].get_by_text("was faster: it is Rejected. Nothing was changed.").wait_for()
        await page.wait_for_load_state("networkidle")
        title = (await facade.review(ids[0]))["title"]
        button = page.get_by_role("button", name="Continue")
        await button.wait_for()
        await (button.click() if by == "button" else press(page, "a"))
        await page.locator("form.notice", has_text=f"Approved: {title}").wait_for()


async def test_decision_with_lost_answer_counts(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 2, HEARD) as (page, ids, outcomes):

        async def lose(route: Route) -> None:
            await route.fetch()
            await eventually(lambda: page.evaluate("name => heard.includes(name)", f"decided {ids[0]}"))
            await route.abort()

        await page.route("**/queue/decisions", lose, times=1)
        await press_for(page, outcomes[0], "Approved.", "a")
        await press_for(page, outcomes[0], "Undone", "z")
    assert await statuses(facade, ids) == ["New", "New"]


async def test_decision_with_lost_answer_and_late_news_counts(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 3, LATE_NEWS) as (page, ids, outcomes):

        async def lose(route: Route) -> None:
            await route.fetch()
            await route.abort()

        await press_for(page, outcomes[0], "Approved.", "a")
        await page.route("**/queue/decisions", lose, times=1)
        await press_for(page, outcomes[1], "The service is unavailable.", "a")
        await eventually(lambda: page.evaluate("late.length === 2"))
        await page.evaluate("late.splice(0).forEach((each) => each())")
        await outcomes[1].get_by_text("Approved.").wait_for()
        await press_for(page, outcomes[1], "Undone", "z")
    assert await statuses(facade, ids) == ["Approved", "New", "New"]


async def test_held_key_decides_once_and_moves_on(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 4) as (page, ids, outcomes):
        for key in "aj":
            for _ in range(2):
                await page.keyboard.down(key)
            await page.keyboard.up(key)
        await press_for(page, outcomes[3], "Approved.", "a")
        assert await statuses(facade, ids) == ["Approved", "New", "New", "Approved"]


async def test_failed_last_decision_can_be_repeated(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        gate = await hold_back(page, "reject")
        await press(page, "j")
        await page.route("**/queue/decisions", lambda route: route.abort(), times=1)
        await press_for(page, outcomes[1], "The service is unavailable.", "a", "r", "1")
        gate.set()
        await outcomes[0].get_by_text("Rejected: spam.").wait_for()
        await page.locator(f"#r-{ids[1]}.focus").wait_for()
        assert await page.get_by_role("button", name="Continue").count() == 0
        await press(page, "a")
        await page.get_by_text("No waiting review matches these filters.").wait_for()
    assert await statuses(facade, ids) == ["Rejected", "Approved"]


async def test_edit_after_decision_is_shown_despite_late_answer(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 2, HEARD) as (page, ids, outcomes):

        async def delay(route: Route) -> None:
            answer = await route.fetch()
            await facade.edit_as_author(ids[0], "Now it is broken")
            await eventually(lambda: page.evaluate("name => heard.includes(name)", f"edited {ids[0]}"))
            await route.fulfill(response=answer)

        await page.route("**/queue/decisions", delay, times=1)
        await press_for(page, outcomes[0], "It was changed in the meantime", "a")


@pytest.mark.parametrize("status", ["Rejected", "Approved"], ids=["another decision", "an equal decision"])
async def test_undo_spares_decisions_of_others(service: Service, facade: Facade, status: str) -> None:
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        if status == "Approved":
            await approve_again(facade, ids[0], outcomes[0])
        else:
            await facade.moderate("reject", ids[0])
            await outcomes[0].get_by_text("Somebody else: Rejected.").wait_for()
        await press_for(page, outcomes[0], f"was faster: it is {status}. Nothing was changed.", "z")
    assert await statuses(facade, ids) == [status, "New"]


async def test_next_page_offers_no_undo_of_others_decision(service: Service, facade: Facade) -> None:
    """The last decision of the previous page, repeated by others since."""
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        await facade.moderate("reset", ids[0])
        await outcomes[0].get_by_text("Somebody else: New.").wait_for()
        await facade.moderate("approve", *ids)
        for outcome in outcomes:
            await outcome.get_by_text("Somebody else: Approved.").wait_for()
        await press(page, "a")
        await page.get_by_text("No waiting review matches these filters.").wait_for()
        assert await page.get_by_role("button", name="Undo").count() == 0


async def test_undo_names_nobody_if_the_author_was_faster(service: Service, facade: Facade) -> None:
    """In particular not the moderator who decided before the author changed the review."""
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        await approve_again(facade, ids[0], outcomes[0])
        await facade.edit_as_author(ids[0], "Now it is broken")
        await outcomes[0].get_by_text("It was changed in the meantime").wait_for()
        await press_for(page, outcomes[0], "Somebody else was faster: it is New. Nothing was changed.", "z")


async def test_late_news_belong_to_own_decisions(service: Service, facade: Facade) -> None:
    """The news of an approval arrives after it was undone; undoing that approves it again."""
    async with queue_of(service, facade, 2, LATE_NEWS) as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
        await press_for(page, outcomes[0], "New.", "k", "u")
        await eventually(lambda: page.evaluate("late.length === 2"))
        await page.evaluate("late.splice(0).forEach((each) => each())")
        await press_for(page, outcomes[0], "Undone", "z")
    assert await statuses(facade, ids) == ["Approved", "New"]


async def test_undo_restores_reason_of_colleagues_rejection(service: Service, facade: Facade) -> None:
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        for n, id in enumerate(ids):
            await facade.command("POST", "/api/customerReviews/reject?reasonCode=fake", [id])
            await outcomes[n].get_by_text("Rejected.").wait_for()
        await press_for(page, outcomes[0], "New.", "u")
        await press_for(page, outcomes[0], "Undone", "z")
    assert [(await facade.review(id))["reasonCode"] for id in ids] == ["fake", "fake"]


async def test_reset_review_can_be_decided_again(service: Service, facade: Facade) -> None:
    """By a shortcut and by the buttons beside it. Undoing the reset restores the decision."""
    async with queue_of(service, facade, 2) as (page, ids, outcomes):
        row = page.locator(f"#r-{ids[0]}")
        await press_for(page, outcomes[0], "Rejected: spam.", "r", "1")
        await press_for(page, outcomes[0], "New.", "k", "u")
        await press_for(page, outcomes[0], "Undone", "z")
        assert await row.evaluate("each => each.matches('.settled[data-status=Rejected]')")
        await press_for(page, outcomes[0], "New.", "u")
        await press_for(page, outcomes[0], "Approved.", "k", "a")
        await press_for(page, outcomes[0], "New.", "k", "u")
        await press(page, "k")
        await page.locator(f"#context [data-id='{ids[0]}'] [value=approve]").click()
        await outcomes[0].get_by_text("Approved.").wait_for()
    assert await statuses(facade, ids) == ["Approved", "New"]


@pytest.mark.parametrize("script", ["", NO_STORAGE])
async def test_shortcuts_can_be_switched_off(service: Service, facade: Facade, script: str) -> None:
    """Without local storage they stay off only on the page where they were switched off."""
    async with queue_of(service, facade, 2, script) as (page, ids, _):
        await press(page, "?")
        await page.get_by_label("Shortcuts are on").uncheck()
        await page.get_by_role("button", name="Close").click()
        # The key for the help is a shortcut, too.
        await press(page, "j", "?")
        assert await page.locator("#list > li.focus").get_attribute("data-id") == ids[0]
        await expect(page.get_by_role("heading", name="Shortcuts")).to_be_hidden()
        await expect(page.locator("kbd:visible")).to_have_count(0)
        await page.get_by_role("button", name="all shortcuts").click()
        await page.get_by_label("Shortcuts are on").check()
        await page.get_by_role("button", name="Close").click()
        await press(page, "j")
        assert await page.locator("#list > li.focus").get_attribute("data-id") == ids[1]


@pytest.mark.parametrize("script", ["", NO_STORAGE])
async def test_shortcuts_can_be_switched_off_beside_a_review(service: Service, facade: Facade, script: str) -> None:
    async with queue_of(service, facade, 1, script) as (page, ids, _):
        await page.set_viewport_size({"width": 1280, "height": 480})
        await page.goto(f"/console/reviews/{ids[0]}")
        # It covers no field.
        await expect(page.get_by_role("button", name="all shortcuts")).not_to_be_in_viewport()
        for is_on in (False, True):
            await page.get_by_role("button", name="all shortcuts").click()
            await page.get_by_label("Shortcuts are on").set_checked(is_on)
            await page.get_by_role("button", name="Close").click()
            await press(page, "r")
            assert await page.evaluate("document.activeElement.name === 'reasonCode'") is is_on


@pytest.mark.parametrize("width", [1280, 320])
async def test_help_fits_and_keeps_digits_beside_their_reasons(service: Service, facade: Facade, width: int) -> None:
    async with queue_of(service, facade, 1) as (page, _, _):
        await page.set_viewport_size({"width": width, "height": 700})
        await press(page, "?")
        box = await page.get_by_role("dialog").bounding_box()
        assert box
        assert box["x"] >= 8
        assert box["x"] + box["width"] <= width - 8
        places = await page.locator("#help kbd").evaluate_all("""(digits) => digits.filter((each) => +each.textContent)
          .map((each) => {
            const word = document.createRange();
            word.selectNode(each.nextSibling);
            return [each, word].map((one) => one.getBoundingClientRect().toJSON());
          })""")
        assert len(places) == 8
        assert all(word["top"] < digit["bottom"] and digit["right"] <= word["right"] for digit, word in places)
        assert all(word["bottom"] - word["top"] < 2 * (digit["bottom"] - digit["top"]) for digit, word in places)


async def test_keys_act_on_the_selected_row(service: Service, facade: Facade) -> None:
    """Rows are selected by Tab, by a click, and by a touch that brings no focus."""
    async with queue_of(service, facade, 4) as (page, ids, outcomes):
        chosen = page.locator("#list > li.focus")
        await page.locator(f"#r-{ids[0]} input[type=checkbox]").focus()
        await press(page, "Tab", "Tab")
        assert await page.evaluate("document.activeElement.value") == ids[1]
        assert await chosen.get_attribute("data-id") == ids[1]
        await press(page, "x")
        assert await page.locator("#list input:checked").input_value() == ids[1]
        await press_for(page, outcomes[1], "Approved.", "a")
        await page.locator(f"#r-{ids[0]} .text").click()
        assert await chosen.get_attribute("data-id") == ids[0]
        await page.locator(f"#r-{ids[3]} .text").dispatch_event("click")
        assert await chosen.get_attribute("data-id") == ids[3]
    assert await statuses(facade, ids) == ["New", "Approved", "New", "New"]


async def test_no_row_moves_under_the_mouse(service: Service, facade: Facade) -> None:
    """A press selects its row, whose end is out of view here; scrolling it into view would make the click miss."""
    async with queue_of(service, facade, 4) as (page, ids, _):
        await page.set_viewport_size({"width": 1360, "height": 400})
        box = page.locator(f"#r-{ids[1]} input[type=checkbox]")
        await box.evaluate("box => box.scrollIntoView({ block: 'end', behavior: 'instant' })")
        place = await box.bounding_box()
        assert place
        await page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        await page.mouse.down()
        await page.mouse.up()
        assert await box.is_checked()
        assert await page.locator("#list > li.focus").get_attribute("data-id") == ids[1]


@pytest.mark.parametrize("letters", ["\u043e\u0447\u043e\u0427", "JXJx"])
async def test_keys_work_on_other_keyboards_and_with_caps_lock(service: Service, facade: Facade, letters: str) -> None:
    """Dispatches what the keys `j`, `x`, `j` and `Shift`+`x` type on a Russian keyboard, and with Caps Lock."""
    async with queue_of(service, facade, 3) as (page, ids, _):
        for at, (letter, code) in enumerate(zip(letters, ("KeyJ", "KeyX") * 2, strict=True)):
            event = {"key": letter, "code": code, "shiftKey": at == 3, "bubbles": True}
            await page.evaluate("event => document.body.dispatchEvent(new KeyboardEvent('keydown', event))", event)
        assert await page.locator("#list > li.focus").get_attribute("data-id") == ids[2]
        checked = page.locator("#list input:checked")
        assert [await checked.nth(at).input_value() for at in range(await checked.count())] == ids[1:]


async def test_keys_work_over_plain_http(service: Service, facade: Facade) -> None:
    """Browsers have no crypto.randomUUID in an insecure context."""
    async with queue_of(service, facade, 2, "delete Crypto.prototype.randomUUID") as (page, ids, outcomes):
        await press_for(page, outcomes[0], "Approved.", "a")
    assert await statuses(facade, ids) == ["Approved", "New"]


async def test_empty_queue_has_working_shortcuts(service: Service) -> None:
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.goto(f"/console/queue?q={new_id('word')}")
        await page.get_by_text("No waiting review matches.").wait_for()
        await press(page, "j", "/")
        assert await page.evaluate("document.activeElement.type") == "search"
        await page.get_by_role("heading", name="Queue").click()
        await press(page, "?")
        await page.get_by_role("heading", name="Shortcuts").wait_for()
