"""The queue in Chromium: by shortcuts alone, shared with other moderators, and without JavaScript."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Dialog, Page, Route, expect

from tests.support.chromium import HEARD, NAME_IN_A_NETWORK, Watch, opened, show, until_quiet, violations
from tests.support.facade import Facade, facade_of, new_id, submission
from tests.support.messages import review_message
from tests.support.service import Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
_DECISIONS = int(os.environ.get("PLAUDIT_TEST_DECISIONS", "100"))
XSS = Path(__file__).parent.parent / "support" / "xss.json"


@pytest.fixture(scope="module")
async def place(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run a service for these tests only, since other tests would fill its queue."""
    names = {"PLAUDIT_HTTP__ALLOWED_HOSTS": json.dumps([NAME_IN_A_NETWORK])}
    async with running_service(servers, tmp_path_factory.mktemp("console"), **names) as service:
        yield service


@pytest.fixture
async def api(place: Service) -> AsyncIterator[Facade]:
    async with facade_of(place) as facade:
        yield facade
        left = await facade.listed(reviewStatus="New", take=1000)
        if left:
            await facade.moderate("reject", *left)


async def reviews_of(api: Facade, count: int, entity: str) -> list[str]:
    return await api.submit(*(submission(entity, 1 + n % 5, title=f"Review {n}") for n in range(count)))


async def edit_in_console(api: Facade, id: str) -> None:
    changed = {"review": "Mended", "rating": "3"}
    assert (await api.http.post(f"/console/reviews/{id}/edit", data=changed)).status_code == 303


async def report(api: Facade, id: str) -> None:
    complaint = {"reason": "spam", "explanation": "It advertises", "goodFaith": True}
    await api.command("POST", f"/api/customerReviews/{id}/reports", complaint)


async def statuses(api: Facade, ids: list[str]) -> dict[str, str]:
    return {id: (await api.review(id))["reviewStatus"] for id in ids}


async def test_hundred_reviews_are_decided_by_keys(browser: Browser, place: Service, api: Facade) -> None:
    """Reject 20 of them, with at most 120 key presses and no mouse."""
    ids = await reviews_of(api, 100, new_id())
    watch, pressed = Watch(), 0
    seen: list[str] = []
    async with opened(browser, place.address, watch) as page:
        await page.goto("/console/queue")
        await page.get_by_role("link", name="Queue 100").wait_for()
        await page.get_by_role("link", name="1 or 2 stars 40").wait_for()
        for number in range(100):
            # Not before the scripts run: until then no row is selected.
            row = page.locator("html.scripted #list > li.focus:not(.settled)")
            await row.wait_for()
            seen.append(await row.get_attribute("data-id") or "")
            keys = ["r", "2"] if number % 5 == 0 else ["a"]
            for key in keys:
                await page.keyboard.press(key)
                pressed += 1
        await page.get_by_text("No review is waiting for a decision").wait_for()
    assert pressed <= 120
    assert sorted(seen) == sorted(ids)
    rejected = set(seen[::5])
    assert await statuses(api, ids) == {id: "Rejected" if id in rejected else "Approved" for id in ids}
    assert {(await api.review(id))["reasonCode"] for id in rejected} == {"offensive"}
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


async def test_undo_restores_status_and_rating(browser: Browser, place: Service, api: Facade) -> None:
    entity = new_id()
    (first,) = await api.submit(submission(entity, 4))
    await api.moderate("approve", first)
    before = await api.rating(entity)
    ids = await reviews_of(api, 2, entity)
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Approved.").wait_for()
        await eventually(lambda: api.rating(entity), lambda now: now != before)
        await page.keyboard.press("z")
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Undone").wait_for()
    await eventually(lambda: api.rating(entity), lambda now: now == before)
    assert await statuses(api, ids) == dict.fromkeys(ids, "New")


async def test_keys_keep_selected_row_and_last_decision(browser: Browser, place: Service, api: Facade) -> None:
    """On a keyboard with digits behind Shift, after going back, and beyond the end of a page."""
    ids = await reviews_of(api, 2, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.keyboard.press("j")
        assert await page.evaluate("document.activeElement.dataset.id") == ids[1]
        await page.keyboard.press("o")
        await page.wait_for_url("**/reviews/*")
        await page.go_back()
        await page.locator(f"#r-{ids[1]}.focus").wait_for()
        await page.keyboard.press("r")
        await page.keyboard.press("Shift")
        pressed = "new KeyboardEvent('keydown', { key: '&', code: 'Digit1', bubbles: true })"
        await page.evaluate(f"document.body.dispatchEvent({pressed})")
        await page.locator(f"#r-{ids[1]} .outcome", has_text="Rejected: ").wait_for()
        await page.keyboard.press("a")
        await page.get_by_text("No review is waiting for a decision").wait_for()
        await page.wait_for_load_state()  # the script runs after the text is there
        await page.keyboard.press("z")
        await page.locator(f"#r-{ids[0]}").wait_for()
    assert [*(await statuses(api, ids)).values()] == ["New", "Rejected"]


async def test_leaving_with_unsent_decision_asks(browser: Browser, place: Service, api: Facade) -> None:
    """The browser asks for confirmation, even if no undecided row is left."""
    await reviews_of(api, 1, new_id())
    dialogs: list[str] = []
    async with opened(browser, place.address, Watch()) as page:

        async def stay(dialog: Dialog) -> None:
            await dialog.dismiss()
            dialogs.append(dialog.type)

        page.on("dialog", stay)
        await page.route("**/queue/decisions", lambda _: None)
        await page.goto("/console/queue")
        async with page.expect_request("**/queue/decisions"):
            await page.keyboard.press("a")
        await page.close(run_before_unload=True)
        await eventually(lambda: page.title(), lambda _: bool(dialogs))
    assert dialogs == ["beforeunload"]


async def test_concurrent_moderators_overwrite_nothing(browser: Browser, place: Service, api: Facade) -> None:
    """Both decide every row, one approves and the other rejects: the first decision of each row stays."""
    ids = await reviews_of(api, _DECISIONS, new_id())
    async with (
        opened(browser, place.address, Watch()) as one,
        opened(browser, place.address, Watch()) as other,
    ):
        await asyncio.gather(one.goto("/console/queue"), other.goto("/console/queue"))

        async def work(page: Page, *keys: str) -> None:
            while not await page.get_by_text("No review is waiting for a decision").count():
                # One more key press goes on if one of the last decisions came too late.
                for key in keys * (await page.locator("#list > li:not(.settled)").count() or 1):
                    await page.keyboard.press(key)

        async with asyncio.timeout(600):
            await asyncio.gather(work(one, "a"), work(other, "r", "1"))
    events = [json.loads(r.value) for r in await place.records("events") if json.loads(r.value).get("reviewId") in ids]
    decisions = [each for each in events if each.get("statusBefore")]
    assert sorted(each["reviewId"] for each in decisions) == sorted(ids)
    assert {each["statusBefore"] for each in decisions} == {"New"}


async def test_actions_of_others_appear(browser: Browser, place: Service, api: Facade) -> None:
    """Claims, decisions and new reviews of others appear without a reload, and move no row."""
    ids = await reviews_of(api, 3, new_id())
    async with opened(browser, place.address, Watch()) as one, opened(browser, place.address, Watch()) as other:
        await one.goto("/console/queue")
        await other.goto("/console/queue")
        await one.locator(f"#r-{ids[0]}.claimed").wait_for()
        await other.keyboard.press("j")
        await one.locator(f"#r-{ids[1]}.claimed").wait_for()
        assert await one.locator("#list > li.claimed").count() == 1
        await other.keyboard.press("a")
        await one.locator(f"#r-{ids[1]}.settled", has_text="Approved").wait_for()
        await edit_in_console(api, ids[2])
        await one.locator(f"#r-{ids[2]}.settled", has_text="It was changed in the meantime").wait_for()
        rows = await one.locator("#list > li").count()
        await api.submit(submission(new_id(), 3))
        await one.get_by_role("link", name="1 new review").wait_for()
        assert await one.locator("#list > li").count() == rows
        assert await one.locator("#list > li.focus").get_attribute("data-id") == ids[0]


async def test_decided_reviews_are_no_longer_new(browser: Browser, place: Service, api: Facade) -> None:
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue?store=&done=rejected&focus=1")
        first, second = await reviews_of(api, 2, new_id())
        link = page.get_by_role("link", name="2 new reviews")
        assert await link.get_attribute("href") == f"{place.address}/console/queue?store="
        await api.moderate("approve", first)
        await page.get_by_role("link", name="1 new review").wait_for()
        await api.moderate("reject", second)
        await page.locator("#news a").wait_for(state="detached")


async def test_late_answer_brings_back_no_decided_review(browser: Browser, place: Service, api: Facade) -> None:
    """A question for missed reviews is answered; before the answer arrives, the review is decided."""
    async with opened(browser, place.address, Watch()) as page:
        since = re.compile("/console/queue/since")
        await page.add_init_script(HEARD)
        async with page.expect_response(since):
            await page.goto("/console/queue")
        await show(page, is_hidden=True)
        (id,) = await reviews_of(api, 1, new_id())

        async def delay(route: Route) -> None:
            answer = await route.fetch()
            assert id in (await answer.json())["ids"]
            await api.moderate("reject", id)
            await eventually(lambda: page.evaluate("name => heard.includes(name)", f"decided {id}"))
            await route.fulfill(response=answer)

        await page.route(since, delay, times=1)
        async with page.expect_response(since):
            await show(page, is_hidden=False)
        await reviews_of(api, 1, new_id())
        await expect(page.locator("#news")).to_have_text("1 new review")


async def test_counts_follow_the_queue(browser: Browser, place: Service, api: Facade) -> None:
    """Without a reload: after own decisions, and after submissions and decisions of others."""
    await reviews_of(api, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.get_by_role("link", name="Queue 3").wait_for()
        await page.locator("html.scripted #list > li.focus").wait_for()

        async def shows_count(count: int) -> None:
            await page.get_by_role("link", name=f"Queue {count}").wait_for()
            await page.get_by_role("link", name=f"All {count}").wait_for()
            await page.locator("#state", has_text=f"{count} wait").wait_for()

        await shows_count(3)
        await page.keyboard.press("a")
        await shows_count(2)
        (other, _) = await reviews_of(api, 2, new_id())
        await shows_count(4)
        await api.moderate("approve", other)
        await shows_count(3)


async def test_context_buttons_decide_the_shown_review(browser: Browser, place: Service, api: Facade) -> None:
    """A double click approves a single review; if a context can't be loaded, that of another review is removed."""
    ids = await reviews_of(api, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.locator("#context [value=approve]").dblclick()
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Approved.").wait_for()
        assert await page.locator("#list > li.settled").count() == 1
        await page.locator(f"#context [data-id='{ids[1]}']").wait_for()
        await page.route("**/context", lambda route: route.abort())
        await page.keyboard.press("j")
        await page.get_by_text("The details can't be loaded.").wait_for()
    assert [*(await statuses(api, ids)).values()] == ["Approved", "New", "New"]


async def test_late_details_of_the_row_before_stay_dimmed(browser: Browser, place: Service, api: Facade) -> None:
    """They aren't those of the row in focus, whose own haven't come yet."""
    ids = await reviews_of(api, 2, new_id())
    coming: asyncio.Queue[Route] = asyncio.Queue()
    async with opened(browser, place.address, Watch()) as page:
        await page.route("**/context", coming.put)
        await page.goto("/console/queue")
        first = await coming.get()
        await page.evaluate("() => { htmx.ajax = () => new Promise(() => {}); }")
        await page.keyboard.press("j")
        await first.continue_()
        await page.locator(f"#context [data-id='{ids[0]}']").wait_for()
        await expect(page.locator("#context")).to_have_attribute("aria-busy", "true")


async def test_hidden_queues_leave_connections_to_the_visible_one(
    browser: Browser, place: Service, api: Facade
) -> None:
    """Browsers open at most six connections to a host."""
    (id,) = await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        for _ in range(6):
            await page.goto("/console/queue")
            await page.locator("#context .do").wait_for()
            await show(page, is_hidden=True)
            page = await page.context.new_page()
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await eventually(lambda: api.review(id), lambda review: review["reviewStatus"] == "Approved")


async def test_hidden_queue_catches_up(browser: Browser, place: Service, api: Facade) -> None:
    """Changes made while the page was hidden appear once it is visible again."""
    ids = await reviews_of(api, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        fresh = await reviews_of(api, 2, new_id())
        await page.get_by_role("link", name="2 new reviews").wait_for()
        for is_hidden in (True, False, True):
            async with page.expect_response("**/queue/rows") if not is_hidden else nullcontext():
                await show(page, is_hidden=is_hidden)
        await api.moderate("approve", ids[0], fresh[0])
        await edit_in_console(api, ids[1])
        await api.moderate("delete", ids[2])
        assert await page.locator("#list > li.settled").count() == 0
        await show(page, is_hidden=False)
        for id, outcome in zip(
            ids, ("Somebody else: Approved.", "It was changed", "Somebody else: deleted."), strict=True
        ):
            await page.locator(f"#r-{id}.settled", has_text=outcome).wait_for()
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_edit_missed_by_hidden_queue_is_shown_as_change(browser: Browser, place: Service, api: Facade) -> None:
    """Its author has edited the review approved here, so the row shows an outdated text."""
    id, _ = await reviews_of(api, 2, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await page.locator(f"#r-{id}.settled", has_text="Approved.").wait_for()
        await show(page, is_hidden=True)
        await api.edit_as_author(id, "Now it is broken")
        await show(page, is_hidden=False)
        await page.locator(f"#r-{id}.settled", has_text="It was changed in the meantime").wait_for()


async def test_failed_query_for_new_reviews_is_retried(browser: Browser, place: Service, api: Facade) -> None:
    async with opened(browser, place.address, Watch()) as page:
        await page.clock.install()
        since = re.compile("/console/queue/since")
        async with page.expect_response(since):
            await page.goto("/console/queue?q=Review")
        await page.route(since, lambda route: route.fulfill(status=503, json={"message": "Later"}), times=1)
        async with page.expect_response(since):
            await reviews_of(api, 1, new_id())
        await page.clock.fast_forward(15_000)
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_reported_reviews_show_actions_of_others(browser: Browser, place: Service, api: Facade) -> None:
    """An edit appears at once; that somebody kept a review appears once the page is visible again."""
    word = new_id("word")
    ids = await api.submit_approved(*(submission(new_id(), 4, title=word) for _ in range(2)))
    for id in ids:
        await report(api, id)
    async with opened(browser, place.address, Watch()) as page:
        await page.goto(f"/console/queue?only=reported&q={word}")
        await page.locator(f"#r-{ids[1]}").wait_for()
        await edit_in_console(api, ids[0])
        await page.locator(f"#r-{ids[0]}.settled", has_text="It was changed in the meantime").wait_for()
        await show(page, is_hidden=True)
        await api.moderate("approve", ids[1])
        async with page.expect_request(lambda asked: "/queue/since" in asked.url) as asked:
            await show(page, is_hidden=False)
        await page.locator(f"#r-{ids[1]}.settled", has_text="It was changed in the meantime").wait_for()
        # For its own rows the page needs no reports.
        assert set(parse_qs((await asked.value).post_data)["rows"]) == set(ids)


async def test_long_context_scrolls_beside_its_row(browser: Browser, place: Service, api: Facade) -> None:
    """With the keyboard, too; the context of the next row begins at its top."""
    (first,) = await api.submit(submission(new_id(), 4, review=f"{'word ' * 1_000}and its end"))
    await api.submit(*(submission(new_id(), 4, review="word " * 1_000) for _ in range(29)))
    options = {"viewport": {"width": 1280, "height": 800}, "bypass_csp": True}
    async with opened(browser, place.address, Watch(), **options) as page:
        await page.goto("/console/queue")
        context = page.locator("#context")
        await context.get_by_text("and its end").wait_for()
        await context.focus()
        await page.keyboard.press("End")
        end = "(each => each.scrollTop + each.clientHeight >= each.scrollHeight - 1)(context)"
        await eventually(lambda: page.evaluate(end))
        for part in (context.get_by_role("heading", name="History"), page.locator(f"#r-{first} h2")):
            place_of = await part.bounding_box()
            assert place_of is not None
            assert 0 <= place_of["y"] <= 800
        assert await violations(page) == []
        await page.keyboard.press("j")
        await context.locator(f"form:not([data-id='{first}'])").wait_for()
        assert await context.evaluate("each => each.scrollTop") == 0


@pytest.mark.parametrize("size", [(1280, 800), (900, 800), (390, 844)], ids=["desk", "tablet", "phone"])
async def test_controls_of_a_decision_are_in_view(
    browser: Browser, place: Service, api: Facade, size: tuple[int, int]
) -> None:
    """For the last row of a long list: its context with the buttons, the buttons for selected reviews, and the
    navigation."""
    width, height = size
    await reviews_of(api, 30, new_id())
    options = {"viewport": {"width": width, "height": height}, "bypass_csp": True}
    async with opened(browser, place.address, Watch(), **options) as page:
        await page.goto("/console/queue")
        row = page.locator("#list > li").last
        await page.locator("html.scripted #context .do").wait_for()
        await row.locator("input[type=checkbox]").check()
        context = page.locator(f"#context form[data-id='{await row.get_attribute('data-id')}']")
        approve = context.get_by_role("button", name="Approve")
        together = page.get_by_role("button", name="Approve selected")
        shown = [row.locator("h2"), approve, context.get_by_role("button", name="Reject"), together]
        for part in shown if width < 721 else [*shown, page.get_by_role("link", name="Queue", exact=False)]:
            await expect(part).to_be_in_viewport(ratio=1)
            # Clickable: nothing covers it.
            await part.click(trial=True)
        assert await violations(page) == []
        await approve.click()
        await expect(row.locator(".outcome")).to_have_text("Approved.")


async def test_phone_shows_rows_above_the_buttons(browser: Browser, place: Service, api: Facade) -> None:
    """The details of the row in focus are a touch away, also those of the next one, and don't cover the row."""
    await reviews_of(api, 5, new_id())
    async with opened(browser, place.address, Watch(), viewport={"width": 390, "height": 844}) as page:
        await page.goto("/console/queue")
        await page.locator("html.scripted #context .do").wait_for()
        await until_quiet(page)
        first, second = page.locator("#list > li").nth(0), page.locator("#list > li").nth(1)
        rows = [await each.bounding_box() for each in (first, second.locator("h2"), page.locator("body > aside"))]
        ends = [each["y"] + each["height"] for each in rows[:2] if each]
        assert rows[2]
        assert max(ends) <= rows[2]["y"]
        details = page.locator("#context .impact")
        await expect(details).to_be_hidden()
        await page.get_by_label("Show its details").check()
        await expect(details).to_be_in_viewport(ratio=1)
        await second.click()
        await page.locator(f"#context [data-id='{await second.get_attribute('data-id')}']").wait_for()
        await expect(details).to_be_in_viewport(ratio=1)
        await expect(page.locator("#context").get_by_role("link", name="Reply")).to_be_visible()
        await page.evaluate("scrollTo(0, 0)")
        await page.locator("#context").get_by_role("button", name="Approve").click()
        third = page.locator("#list > li").nth(2)
        await page.locator(f"#context [data-id='{await third.get_attribute('data-id')}']").wait_for()
        title, buttons = await third.locator("h2").bounding_box(), await page.locator("body > aside").bounding_box()
        assert title
        assert buttons
        assert title["y"] + title["height"] <= buttons["y"]


async def test_row_without_context_has_buttons(browser: Browser, place: Service, api: Facade) -> None:
    (id,) = await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.route("**/context", lambda route: route.abort())
        await page.goto("/console/queue")
        await page.get_by_text("The details can't be loaded.").wait_for()
        await page.locator("#list").get_by_role("button", name="Approve").click()
        await page.get_by_text("No review is waiting for a decision").wait_for()
    assert await statuses(api, [id]) == {id: "Approved"}


@pytest.mark.parametrize("status", [429, 503])
async def test_filters_stay_without_their_counts(browser: Browser, place: Service, api: Facade, status: int) -> None:
    """The message about a count would stand in the place of all filters, and in the navigation."""
    await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        for part in ("chips", "waiting"):
            await page.route(f"**/{part}", lambda route: route.fulfill(status=status, body="Not now"))
        await page.goto("/console/queue")
        await until_quiet(page)
        await expect(page.get_by_role("link", name="Flagged")).to_be_visible()
        await expect(page.get_by_text("Not now")).to_have_count(0)


async def test_parts_wait_for_the_extension_of_htmx(browser: Browser, place: Service, api: Facade) -> None:
    """On a slow connection htmx arrives long before its extension, without which the page's policy blocks all parts."""
    await reviews_of(api, 1, new_id())
    watch, arrived = Watch(), asyncio.Event()

    async def hold(route: Route) -> None:
        await arrived.wait()
        await route.continue_()

    async with opened(browser, place.address, watch) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        await page.route("**/hx-csp.min.js", hold)
        await page.goto("/console/queue", wait_until="commit")
        await page.wait_for_function("() => window.htmx")
        # A timer of htmx set off the parts.
        await page.evaluate("() => new Promise((done) => setTimeout(done))")
        assert "/console/queue/state" not in asked
        arrived.set()
        await page.locator("#context").get_by_role("button", name="Approve").wait_for()
    assert watch.complaints == []


async def test_shortcuts_can_be_switched_off_by_mouse(browser: Browser, place: Service, api: Facade) -> None:
    (id,) = await reviews_of(api, 1, new_id())
    for width in (1280, 390):
        async with opened(browser, place.address, Watch(), viewport={"width": width, "height": 844}) as page:
            await page.goto("/console/queue")
            await page.get_by_role("button", name="all shortcuts").click()
            await page.get_by_label("Shortcuts are on").uncheck()
            await page.get_by_role("button", name="Close").click()
            await page.keyboard.press("a")
            await page.reload()
            await page.locator("html.scripted").wait_for()
            await page.keyboard.press("a")
            await expect(page.locator("#list .outcome")).to_be_empty()
    assert await statuses(api, [id]) == {id: "New"}


async def test_review_submitted_while_api_is_down_is_announced(browser: Browser, place: Service, api: Facade) -> None:
    """A review submitted while the API is down is announced once it is back."""
    await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        assert await place.stop("api") == 0
        id = new_id()
        await place.publish("review-submissions", review_message(submission(new_id(), id=id)))
        await eventually(lambda: place.find("reviews", id))
        place.start("api")
        await place.until_ready()
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_failed_catching_up_is_retried(browser: Browser, place: Service, api: Facade) -> None:
    """The stream of events reconnects before the service can answer the queries."""
    (id,) = await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.clock.install()
        await page.goto("/console/queue")
        await page.locator("#list > li.focus").wait_for()
        await show(page, is_hidden=True)
        await api.moderate("approve", id)
        await reviews_of(api, 1, new_id())
        rows, since = (re.compile(f"/console/queue/{name}") for name in ("rows", "since"))
        for path in (rows, since):
            await page.route(path, lambda route: route.fulfill(status=503, json={"message": "Later"}), times=1)
        async with page.expect_response(rows), page.expect_response(since):
            await show(page, is_hidden=False)
        await page.clock.fast_forward(15_000)
        await page.locator(f"#r-{id}.settled", has_text="Somebody else: Approved.").wait_for()
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_decisions_of_worker_with_slow_clock_are_shown(browser: Browser, place: Service, api: Facade) -> None:
    (id,) = await reviews_of(api, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.locator("#list > li.focus").wait_for()
        # As if the clock of the API were ahead.
        await page.evaluate("news.dataset.since = new Date(Date.now() + 4_000).toISOString()")
        await api.moderate("approve", id)
        await page.locator(f"#r-{id}.settled", has_text="Somebody else: Approved.").wait_for()


async def test_repeated_events_keep_own_decisions(browser: Browser, place: Service, api: Facade) -> None:
    """A starting API process repeats events of the last minutes, also of own decisions: they must stay undoable."""
    ids = await reviews_of(api, 3, new_id())
    outcomes = [f"#r-{id} .outcome" for id in ids]
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        for key, outcome in (("a", "Approved."), ("z", "Undone"), ("a", "Approved.")):
            await page.keyboard.press(key)
            await page.locator(outcomes[0], has_text=outcome).wait_for()
        await api.moderate("reject", ids[1])
        await page.locator(outcomes[1], has_text="Somebody else: Rejected.").wait_for()
        assert await place.stop("api") == 0
        async with page.expect_response("**/queue/rows"):
            place.start("api")
        # Events of one object arrive in order, so this one is behind all the others.
        await api.moderate("reject", ids[2])
        await page.locator(outcomes[2], has_text="Somebody else: Rejected.").wait_for()
        await page.keyboard.press("z")
        await page.locator(outcomes[0], has_text="Undone").wait_for()
    assert [*(await statuses(api, ids)).values()] == ["New", "Rejected", "Rejected"]


async def test_new_reviews_are_counted_by_filter(browser: Browser, place: Service, api: Facade) -> None:
    word = new_id("word")
    narrow, wide = Watch(), Watch()
    async with opened(browser, place.address, narrow) as filtered, opened(browser, place.address, wide) as everything:
        await filtered.goto(f"/console/queue?q={word}")
        await everything.goto("/console/queue")
        await filtered.get_by_text("No waiting review matches.").wait_for()
        await reviews_of(api, 3, new_id())
        await everything.get_by_role("link", name="3 new reviews").wait_for()
        await api.submit(submission(new_id(), 4, title=word))
        await everything.get_by_role("link", name="4 new reviews").wait_for()
        await filtered.get_by_role("link", name="1 new review").wait_for()
        assert narrow.complaints == wide.complaints == []


async def test_returning_reviews_are_announced(browser: Browser, place: Service, api: Facade) -> None:
    """After a reset or an edit, even while the page is hidden; and with the filter for reported reviews, after a
    report."""
    entity, word = new_id(), new_id("word")
    ids = await api.submit_approved(*(submission(entity, 4, title=word) for _ in range(4)))
    (waiting,) = await api.submit(submission(new_id(), 3))
    options = ("", "?only=reported")
    async with opened(browser, place.address, Watch()) as page, opened(browser, place.address, Watch()) as other:
        for each, query in zip((page, other), options, strict=True):
            await each.goto(f"/console/queue{query}")
            await each.locator("#state", has_text=re.compile("wait|reported")).wait_for()
        await api.moderate("reset", ids[0])
        await page.get_by_role("link", name="1 new review").wait_for()
        await api.edit_as_author(ids[1], "Now it is broken")
        await page.get_by_role("link", name="2 new reviews").wait_for()
        # An edit of a waiting review doesn't count it again.
        await api.edit_as_author(ids[1], "Now it works")
        await show(page, is_hidden=True)
        await api.moderate("reset", ids[2])
        await show(page, is_hidden=False)
        await page.get_by_role("link", name="3 new reviews").wait_for()
        await report(api, ids[3])
        await other.get_by_role("link", name="1 new review").wait_for()
        assert await page.locator("#list > li").get_attribute("data-id") == waiting
        await page.get_by_role("link", name="3 new reviews").click()
        for id in (*ids[:3], waiting):
            await page.locator(f"#r-{id}").wait_for()


async def test_queue_works_without_javascript(browser: Browser, place: Service, api: Facade) -> None:
    ids = await reviews_of(api, 3, new_id())
    async with opened(browser, place.address, Watch(), java_script_enabled=False) as page:
        await page.goto("/console/queue")
        await page.locator(f"#r-{ids[0]}").get_by_role("button", name="Approve").click()
        await page.get_by_text("Approved:").wait_for()
        await page.get_by_role("button", name="Undo").click()
        row = page.locator(f"#r-{ids[0]}")
        await row.get_by_label("Reason for a rejection").select_option("fake")
        await row.get_by_role("button", name="Reject").click()
        await page.goto(f"/console/reviews/{ids[1]}")
        await page.get_by_label("Text, shown with the review").fill("Thank you <3")
        await page.get_by_role("button", name="Save the reply").click()
        await page.get_by_text("Delete permanently").click()
        await page.goto("/console/queue")
        for id in ids[1:]:
            await page.locator(f"#r-{id} input[type=checkbox]").check()
        await page.get_by_role("button", name="Approve selected").click()
        await page.get_by_role("heading", name=re.compile("Decided|Accepted")).wait_for()
    assert await statuses(api, ids) == dict(zip(ids, ["Rejected", "Approved", "Approved"], strict=True))
    assert (await api.review(ids[0]))["reasonCode"] == "fake"
    assert (await api.review(ids[1]))["reply"]["text"] == "Thank you <3"


async def test_forms_work_over_plain_http(browser: Browser, place: Service, api: Facade) -> None:
    """In an insecure context browsers send less about the origin of a form."""
    (id,) = await reviews_of(api, 1, new_id())
    address = f"http://{NAME_IN_A_NETWORK}:{urlsplit(place.address).port}"
    async with opened(browser, address, Watch()) as page:
        await page.goto(f"/console/reviews/{id}")
        assert not await page.evaluate("isSecureContext")
        await page.get_by_label("Text, shown with the review").fill("Thank you.")
        await page.get_by_role("button", name="Save the reply").click()
        await page.get_by_role("button", name="Remove it").wait_for()
    assert (await api.review(id))["reply"]["text"] == "Thank you."


async def test_all_results_are_decided_with_progress(browser: Browser, place: Service, api: Facade) -> None:
    ids = await reviews_of(api, 700, new_id())
    async with opened(browser, place.address, Watch()) as page:
        # Links may lead here, so the page names the filters.
        await page.goto("/console/queue/all?only=low&q=Review")
        await page.get_by_text("Only those that match the filter 1 or 2 stars, with “Review”:").wait_for()
        await page.get_by_role("link", name="look at them").click()
        await page.goto("/console/queue")
        await page.get_by_role("button", name="All results").click()
        await page.get_by_text("All that wait, in the stores that you may see:").wait_for()
        await page.get_by_role("button", name="Approve all 700").click()
        await page.get_by_text("0 wait, 700 are done").wait_for()
    assert await api.listed(reviewStatus="New") == []
    assert set((await statuses(api, ids[::50])).values()) == {"Approved"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_states_of_the_queue_are_accessible(browser: Browser, place: Service, api: Facade, scheme: str) -> None:
    """axe finds no violation, also on the page of a waiting review, on a desktop and on a phone. Other pages are in
    test_console_screens.py."""
    ids = await reviews_of(api, 3, new_id())
    for size in ({"width": 1360, "height": 900}, {"width": 390, "height": 844}):
        options = {"color_scheme": scheme, "viewport": size, "bypass_csp": True}
        async with opened(browser, place.address, Watch(), **options) as page:
            for path in ("queue?only=flagged", f"reviews/{ids[0]}"):
                await page.goto(f"/console/{path}")
                await until_quiet(page)
                assert await violations(page) == [], path
            await page.goto("/console/queue")
            await page.keyboard.press("j")
            await page.keyboard.press("x")
            # Until the details of this row come, those of the row before are dimmed.
            await until_quiet(page)
            assert await violations(page) == []
            await page.keyboard.press("?")
            await page.get_by_role("dialog").wait_for()
            assert await violations(page) == []


async def test_hostile_reviews_are_shown_as_text(browser: Browser, place: Service, api: Facade) -> None:
    """Markup, scripts and tricks in every field are shown as they were submitted."""
    watch = Watch()
    attacks = json.loads(XSS.read_text())
    ids = [
        (await api.submit({**submission(new_id(), 3), "title": text, "review": text, "userName": text}))[0]
        for text in attacks
    ]
    async with opened(browser, place.address, watch) as page:
        await page.add_init_script("window.alert = () => { throw new Error('an attack ran') }")
        await page.goto("/console/queue")
        titles = await page.locator("#list h2").all_text_contents()
        assert len(titles) == len(attacks)
        for id, text in zip(ids, attacks, strict=True):
            await page.goto(f"/console/reviews/{id}")
            assert (await page.locator("h1").text_content()) == text
            injected = "main script, main img, main iframe, main svg:not(.icon), main style"
            assert await page.locator(injected).count() == 0
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}
