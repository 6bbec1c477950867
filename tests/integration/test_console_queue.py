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
from playwright.async_api import Browser, Dialog, Page, expect

from tests.support.chromium import NAME_IN_A_NETWORK, Watch, opened, show, violations
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
async def own(place: Service) -> AsyncIterator[Facade]:
    async with facade_of(place) as facade:
        yield facade
        left = await facade.listed(reviewStatus="New", take=1000)
        if left:
            await facade.moderate("reject", *left)


async def reviews_of(own: Facade, count: int, entity: str) -> list[str]:
    return await own.submit(*(submission(entity, 1 + n % 5, title=f"Review {n}") for n in range(count)))


async def statuses(own: Facade, ids: list[str]) -> dict[str, str]:
    return {id: (await own.review(id))["reviewStatus"] for id in ids}


async def test_a_hundred_reviews_by_keys(browser: Browser, place: Service, own: Facade) -> None:
    """Reject 20 of them, with at most 120 key presses and no mouse."""
    ids = await reviews_of(own, 100, new_id())
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
    assert await statuses(own, ids) == {id: "Rejected" if id in rejected else "Approved" for id in ids}
    assert {(await own.review(id))["reasonCode"] for id in rejected} == {"offensive"}
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


async def test_undo_restores_what_was(browser: Browser, place: Service, own: Facade) -> None:
    entity = new_id()
    (first,) = await own.submit(submission(entity, 4))
    await own.moderate("approve", first)
    before = await own.rating(entity)
    ids = await reviews_of(own, 2, entity)
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Approved.").wait_for()
        await eventually(lambda: own.rating(entity), lambda now: now != before)
        await page.keyboard.press("z")
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Undone").wait_for()
    await eventually(lambda: own.rating(entity), lambda now: now == before)
    assert await statuses(own, ids) == dict.fromkeys(ids, "New")


async def test_keys_keep_the_place_and_the_last_decision(browser: Browser, place: Service, own: Facade) -> None:
    """On a keyboard with digits behind Shift, after going back, and beyond the end of a page."""
    ids = await reviews_of(own, 2, new_id())
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
    assert [*(await statuses(own, ids)).values()] == ["New", "Rejected"]


async def test_nobody_leaves_before_the_last_decision_is_sent(browser: Browser, place: Service, own: Facade) -> None:
    """The browser asks for confirmation, even if no undecided row is left."""
    await reviews_of(own, 1, new_id())
    asked: list[str] = []
    async with opened(browser, place.address, Watch()) as page:

        async def stay(dialog: Dialog) -> None:
            await dialog.dismiss()
            asked.append(dialog.type)

        page.on("dialog", stay)
        await page.route("**/queue/decisions", lambda _: None)
        await page.goto("/console/queue")
        async with page.expect_request("**/queue/decisions"):
            await page.keyboard.press("a")
        await page.close(run_before_unload=True)
        await eventually(lambda: page.title(), lambda _: bool(asked))
    assert asked == ["beforeunload"]


async def test_two_at_one_queue_overwrite_nothing(browser: Browser, place: Service, own: Facade) -> None:
    """Both decide every row, one approves and the other rejects: the first decision of each row stays."""
    ids = await reviews_of(own, _DECISIONS, new_id())
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
    told = [json.loads(r.value) for r in await place.records("events") if json.loads(r.value).get("reviewId") in ids]
    decisions = [each for each in told if each.get("statusBefore")]
    assert sorted(each["reviewId"] for each in decisions) == sorted(ids)
    assert {each["statusBefore"] for each in decisions} == {"New"}


async def test_others_are_seen(browser: Browser, place: Service, own: Facade) -> None:
    """Claims, decisions and new reviews of others appear without a reload, and move no row."""
    ids = await reviews_of(own, 3, new_id())
    async with opened(browser, place.address, Watch()) as one, opened(browser, place.address, Watch()) as other:
        await one.goto("/console/queue")
        await other.goto("/console/queue")
        await one.locator(f"#r-{ids[0]}.claimed").wait_for()
        await other.keyboard.press("j")
        await one.locator(f"#r-{ids[1]}.claimed").wait_for()
        assert await one.locator("#list > li.claimed").count() == 1
        await other.keyboard.press("a")
        await one.locator(f"#r-{ids[1]}.settled", has_text="Approved").wait_for()
        changed = {"review": "Mended", "rating": "3"}
        assert (await own.http.post(f"/console/reviews/{ids[2]}/edit", data=changed)).status_code == 303
        await one.locator(f"#r-{ids[2]}.settled", has_text="It was changed in the meantime").wait_for()
        rows = await one.locator("#list > li").count()
        await own.submit(submission(new_id(), 3))
        await one.get_by_text("1 new review").wait_for()
        assert await one.locator("#list > li").count() == rows
        assert await one.locator("#list > li.focus").get_attribute("data-id") == ids[0]


async def test_what_somebody_has_decided_is_not_new_any_more(browser: Browser, place: Service, own: Facade) -> None:
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue?store=&done=rejected&focus=1")
        first, second = await reviews_of(own, 2, new_id())
        link = page.get_by_role("link", name="2 new reviews")
        assert await link.get_attribute("href") == f"{place.address}/console/queue?store="
        await own.moderate("approve", first)
        await page.get_by_role("link", name="1 new review").wait_for()
        await own.moderate("reject", second)
        await page.locator("#news a").wait_for(state="detached")


async def test_what_is_counted_goes_with_the_queue(browser: Browser, place: Service, own: Facade) -> None:
    """Without a reload: after own decisions, and after submissions and decisions of others."""
    await reviews_of(own, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.get_by_role("link", name="Queue 3").wait_for()
        await page.locator("html.scripted #list > li.focus").wait_for()

        async def is_told(count: int) -> None:
            await page.get_by_role("link", name=f"Queue {count}").wait_for()
            await page.get_by_role("link", name=f"All {count}").wait_for()
            await page.locator("#state", has_text=f"{count} wait").wait_for()

        await is_told(3)
        await page.keyboard.press("a")
        await is_told(2)
        (other, _) = await reviews_of(own, 2, new_id())
        await is_told(4)
        await own.moderate("approve", other)
        await is_told(3)


async def test_the_buttons_beside_decide_about_what_they_show(browser: Browser, place: Service, own: Facade) -> None:
    """A double click approves a single review; if a context can't be loaded, that of another review is removed."""
    ids = await reviews_of(own, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.locator("#context [value=approve]").dblclick()
        await page.locator(f"#r-{ids[0]} .outcome", has_text="Approved.").wait_for()
        assert await page.locator("#list > li.settled").count() == 1
        await page.locator(f"#context [data-id='{ids[1]}']").wait_for()
        await page.route("**/context", lambda route: route.abort())
        await page.keyboard.press("j")
        await page.get_by_text("The details can't be loaded.").wait_for()
    assert [*(await statuses(own, ids)).values()] == ["Approved", "New", "New"]


async def test_many_open_queues_leave_connections_to_the_one_in_view(
    browser: Browser, place: Service, own: Facade
) -> None:
    """Browsers open at most six connections to a host."""
    (id,) = await reviews_of(own, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        for _ in range(6):
            await page.goto("/console/queue")
            await page.locator("#context .do").wait_for()
            await show(page, is_hidden=True)
            page = await page.context.new_page()
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await eventually(lambda: own.review(id), lambda review: review["reviewStatus"] == "Approved")


async def test_a_queue_that_was_hidden_is_as_it_would_be(browser: Browser, place: Service, own: Facade) -> None:
    """Changes made while the page was hidden appear once it is visible again."""
    ids = await reviews_of(own, 3, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        fresh = await reviews_of(own, 2, new_id())
        await page.get_by_role("link", name="2 new reviews").wait_for()
        for is_hidden in (True, False, True):
            async with page.expect_response("**/queue/rows") if not is_hidden else nullcontext():
                await show(page, is_hidden=is_hidden)
        await own.moderate("approve", ids[0], fresh[0])
        changed = {"review": "Mended", "rating": "3"}
        assert (await own.http.post(f"/console/reviews/{ids[1]}/edit", data=changed)).status_code == 303
        await own.moderate("delete", ids[2])
        assert await page.locator("#list > li.settled").count() == 0
        await show(page, is_hidden=False)
        for id, told in zip(
            ids, ("Somebody else: Approved.", "It was changed", "Somebody else: deleted."), strict=True
        ):
            await page.locator(f"#r-{id}.settled", has_text=told).wait_for()
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_an_edit_that_a_hidden_queue_missed_is_no_decision(browser: Browser, place: Service, own: Facade) -> None:
    """Its author has edited the review approved here, so the row shows an outdated text."""
    id, _ = await reviews_of(own, 2, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.keyboard.press("a")
        await page.locator(f"#r-{id}.settled", has_text="Approved.").wait_for()
        await show(page, is_hidden=True)
        before = await own.review(id)
        edit = submission(before["entityId"], 1, id=id, title=before["title"], review="Now it is broken")
        await own.command("POST", "/api/customerReviews", [edit])
        await show(page, is_hidden=False)
        await page.locator(f"#r-{id}.settled", has_text="It was changed in the meantime").wait_for()


async def test_what_a_filter_finds_is_asked_for_until_it_is_told(browser: Browser, place: Service, own: Facade) -> None:
    async with opened(browser, place.address, Watch()) as page:
        await page.clock.install()
        since = re.compile("/console/queue/since")
        async with page.expect_response(since):
            await page.goto("/console/queue?q=Review")
        await page.route(since, lambda route: route.fulfill(status=503, json={"message": "Later"}), times=1)
        async with page.expect_response(since):
            await reviews_of(own, 1, new_id())
        await page.clock.fast_forward(15_000)
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_of_reported_reviews_it_is_told_what_others_did(browser: Browser, place: Service, own: Facade) -> None:
    """An edit appears at once; that somebody kept a review appears once the page is visible again."""
    word = new_id("word")
    ids = await own.submit_approved(*(submission(new_id(), 4, title=word) for _ in range(2)))
    report = {"reason": "spam", "explanation": "It advertises", "goodFaith": True}
    for id in ids:
        await own.command("POST", f"/api/customerReviews/{id}/reports", report)
    async with opened(browser, place.address, Watch()) as page:
        await page.goto(f"/console/queue?only=reported&q={word}")
        await page.locator(f"#r-{ids[1]}").wait_for()
        changed = {"review": "Mended", "rating": "3"}
        assert (await own.http.post(f"/console/reviews/{ids[0]}/edit", data=changed)).status_code == 303
        await page.locator(f"#r-{ids[0]}.settled", has_text="It was changed in the meantime").wait_for()
        await show(page, is_hidden=True)
        await own.moderate("approve", ids[1])
        async with page.expect_request(lambda asked: "/queue/since" in asked.url) as asked:
            await show(page, is_hidden=False)
        await page.locator(f"#r-{ids[1]}.settled", has_text="It was changed in the meantime").wait_for()
        # For its own rows the page needs no reports.
        assert set(parse_qs((await asked.value).post_data)["rows"]) == set(ids)


async def test_a_long_context_is_read_while_its_row_is_in_view(browser: Browser, place: Service, own: Facade) -> None:
    """With the keyboard, too; the context of the next row begins at its top."""
    (first,) = await own.submit(submission(new_id(), 4, review=f"{'word ' * 1_000}and its end"))
    await own.submit(*(submission(new_id(), 4, review="word " * 1_000) for _ in range(29)))
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
async def test_what_a_decision_needs_is_in_view(
    browser: Browser, place: Service, own: Facade, size: tuple[int, int]
) -> None:
    """For the last row of a long list: its context with the buttons, the buttons for selected reviews, and the
    navigation."""
    width, height = size
    await reviews_of(own, 30, new_id())
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


async def test_without_its_context_a_row_has_its_buttons(browser: Browser, place: Service, own: Facade) -> None:
    (id,) = await reviews_of(own, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.route("**/context", lambda route: route.abort())
        await page.goto("/console/queue")
        await page.get_by_text("The context can't be loaded.").wait_for()
        await page.locator("#list").get_by_role("button", name="Approve").click()
        await page.get_by_text("Nothing waits for a decision").wait_for()
    assert await statuses(own, [id]) == {id: "Approved"}


async def test_shortcuts_can_be_switched_off_without_a_shortcut(browser: Browser, place: Service, own: Facade) -> None:
    (id,) = await reviews_of(own, 1, new_id())
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
    assert await statuses(own, [id]) == {id: "New"}


async def test_news_that_a_page_missed(browser: Browser, place: Service, own: Facade) -> None:
    """A review submitted while the API is down is announced once it is back."""
    await reviews_of(own, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        assert await place.stop("api") == 0
        id = new_id()
        await place.publish("review-submissions", review_message(submission(new_id(), id=id)))
        await eventually(lambda: place.find("reviews", id))
        place.start("api")
        await place.until_ready()
        await page.get_by_text("1 new review").wait_for()


async def test_what_a_page_missed_is_asked_for_until_it_is_told(browser: Browser, place: Service, own: Facade) -> None:
    """The stream of events reconnects before the service can answer the queries."""
    (id,) = await reviews_of(own, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.clock.install()
        await page.goto("/console/queue")
        await page.locator("#list > li.focus").wait_for()
        await show(page, is_hidden=True)
        await own.moderate("approve", id)
        await reviews_of(own, 1, new_id())
        rows, since = (re.compile(f"/console/queue/{name}") for name in ("rows", "since"))
        for path in (rows, since):
            await page.route(path, lambda route: route.fulfill(status=503, json={"message": "Later"}), times=1)
        async with page.expect_response(rows), page.expect_response(since):
            await show(page, is_hidden=False)
        await page.clock.fast_forward(15_000)
        await page.locator(f"#r-{id}.settled", has_text="Somebody else: Approved.").wait_for()
        await page.get_by_role("link", name="1 new review").wait_for()


async def test_decisions_of_a_worker_whose_clock_is_behind_are_told(
    browser: Browser, place: Service, own: Facade
) -> None:
    (id,) = await reviews_of(own, 1, new_id())
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        await page.locator("#list > li.focus").wait_for()
        # As if the clock of the API were ahead.
        await page.evaluate("news.dataset.since = new Date(Date.now() + 4_000).toISOString()")
        await own.moderate("approve", id)
        await page.locator(f"#r-{id}.settled", has_text="Somebody else: Approved.").wait_for()


async def test_news_that_are_told_again_are_nobody_elses(browser: Browser, place: Service, own: Facade) -> None:
    """A starting API process repeats events of the last minutes, also of own decisions: they must stay undoable."""
    ids = await reviews_of(own, 3, new_id())
    outcomes = [f"#r-{id} .outcome" for id in ids]
    async with opened(browser, place.address, Watch()) as page:
        await page.goto("/console/queue")
        for key, told in (("a", "Approved."), ("z", "Undone"), ("a", "Approved.")):
            await page.keyboard.press(key)
            await page.locator(outcomes[0], has_text=told).wait_for()
        await own.moderate("reject", ids[1])
        await page.locator(outcomes[1], has_text="Somebody else: Rejected.").wait_for()
        assert await place.stop("api") == 0
        async with page.expect_response("**/queue/rows"):
            place.start("api")
        # Events of one object arrive in order, so this one is behind all the others.
        await own.moderate("reject", ids[2])
        await page.locator(outcomes[2], has_text="Somebody else: Rejected.").wait_for()
        await page.keyboard.press("z")
        await page.locator(outcomes[0], has_text="Undone").wait_for()
    assert [*(await statuses(own, ids)).values()] == ["New", "Rejected", "Rejected"]


async def test_news_are_of_what_a_filter_finds(browser: Browser, place: Service, own: Facade) -> None:
    word = new_id("word")
    narrow, wide = Watch(), Watch()
    async with opened(browser, place.address, narrow) as filtered, opened(browser, place.address, wide) as everything:
        await filtered.goto(f"/console/queue?q={word}")
        await everything.goto("/console/queue")
        await filtered.get_by_text("No waiting review matches.").wait_for()
        await reviews_of(own, 3, new_id())
        await everything.get_by_role("link", name="3 new reviews").wait_for()
        await own.submit(submission(new_id(), 4, title=word))
        await everything.get_by_role("link", name="4 new reviews").wait_for()
        await filtered.get_by_role("link", name="1 new review").wait_for()
        assert narrow.complaints == wide.complaints == []


async def test_what_comes_back_into_the_queue_is_told_of(browser: Browser, place: Service, own: Facade) -> None:
    """After a reset or an edit, even while the page is hidden; and with the filter for reported reviews, after a
    report."""
    entity, word = new_id(), new_id("word")
    ids = await own.submit_approved(*(submission(entity, 4, title=word) for _ in range(4)))
    (waits,) = await own.submit(submission(new_id(), 3))
    options = ("", "?only=reported")
    async with opened(browser, place.address, Watch()) as page, opened(browser, place.address, Watch()) as other:
        for each, query in zip((page, other), options, strict=True):
            await each.goto(f"/console/queue{query}")
            await each.locator("#state", has_text=re.compile("wait|reported")).wait_for()
        await own.moderate("reset", ids[0])
        await page.get_by_role("link", name="1 new review").wait_for()
        edit = submission(entity, 2, id=ids[1], title=word, review="Now it is broken")
        await own.command("POST", "/api/customerReviews", [edit])
        await page.get_by_role("link", name="2 new reviews").wait_for()
        # An edit of a waiting review doesn't count it again.
        await own.command("POST", "/api/customerReviews", [submission(entity, 1, id=ids[1], title=word)])
        await show(page, is_hidden=True)
        await own.moderate("reset", ids[2])
        await show(page, is_hidden=False)
        await page.get_by_role("link", name="3 new reviews").wait_for()
        report = {"reason": "spam", "explanation": "It advertises", "goodFaith": True}
        await own.command("POST", f"/api/customerReviews/{ids[3]}/reports", report)
        await other.get_by_role("link", name="1 new review").wait_for()
        assert await page.locator("#list > li").get_attribute("data-id") == waits
        await page.get_by_role("link", name="3 new reviews").click()
        for id in (*ids[:3], waits):
            await page.locator(f"#r-{id}").wait_for()


async def test_without_javascript(browser: Browser, place: Service, own: Facade) -> None:
    ids = await reviews_of(own, 3, new_id())
    async with opened(browser, place.address, Watch(), java_script_enabled=False) as page:
        await page.goto("/console/queue")
        await page.locator(f"#r-{ids[0]}").get_by_role("button", name="Approve").click()
        await page.get_by_role("status").filter(has_text="Approved.").wait_for()
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
    assert await statuses(own, ids) == dict(zip(ids, ["Rejected", "Approved", "Approved"], strict=True))
    assert (await own.review(ids[0]))["reasonCode"] == "fake"
    assert (await own.review(ids[1]))["reply"]["text"] == "Thank you <3"


async def test_forms_work_by_plain_http_in_a_network(browser: Browser, place: Service, own: Facade) -> None:
    """In an insecure context browsers send less about the origin of a form."""
    (id,) = await reviews_of(own, 1, new_id())
    address = f"http://{NAME_IN_A_NETWORK}:{urlsplit(place.address).port}"
    async with opened(browser, address, Watch()) as page:
        await page.goto(f"/console/reviews/{id}")
        assert not await page.evaluate("isSecureContext")
        await page.get_by_label("Text, shown with the review").fill("Thank you.")
        await page.get_by_role("button", name="Save the reply").click()
        await page.get_by_role("button", name="Remove it").wait_for()
    assert (await own.review(id))["reply"]["text"] == "Thank you."


async def test_all_results_with_progress(browser: Browser, place: Service, own: Facade) -> None:
    ids = await reviews_of(own, 700, new_id())
    async with opened(browser, place.address, Watch()) as page:
        # Links may lead here, so the page names the filters.
        await page.goto("/console/queue/all?only=low&q=Review")
        await page.get_by_text("Those of the filter 1 or 2 stars, with “Review”:").wait_for()
        await page.get_by_role("link", name="look at them").click()
        await page.goto("/console/queue")
        await page.get_by_role("button", name="All results").click()
        await page.get_by_text("All that wait, in the stores that you may see:").wait_for()
        await page.get_by_role("button", name="Approve all 700").click()
        await page.get_by_text("0 wait, 700 are done").wait_for()
    assert await own.listed(reviewStatus="New") == []
    assert set((await statuses(own, ids[::50])).values()) == {"Approved"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_for_everybody(browser: Browser, place: Service, own: Facade, scheme: str) -> None:
    """axe finds no violation in any state of the queue and of a review, on a desktop and on a phone."""
    ids = await reviews_of(own, 3, new_id())
    for size in ({"width": 1360, "height": 900}, {"width": 390, "height": 844}):
        options = {"color_scheme": scheme, "viewport": size, "bypass_csp": True}
        async with opened(browser, place.address, Watch(), **options) as page:
            for path in ("queue", "queue?only=flagged", "reviews", f"reviews/{ids[0]}", "queue/all", "nowhere"):
                await page.goto(f"/console/{path}")
                await page.wait_for_load_state("networkidle") if "queue" not in path else await asyncio.sleep(0.3)
                assert await violations(page) == [], path
            await page.goto("/console/queue")
            await page.keyboard.press("j")
            await page.keyboard.press("x")
            await page.locator("#context .do").wait_for()
            assert await violations(page) == []
            await page.keyboard.press("?")
            assert await violations(page) == []


async def test_what_reviews_say_stays_text(browser: Browser, place: Service, own: Facade) -> None:
    """Markup, scripts and tricks in every field are shown as they were submitted."""
    watch = Watch()
    attacks = json.loads(XSS.read_text())
    ids = [
        (await own.submit({**submission(new_id(), 3), "title": text, "review": text, "userName": text}))[0]
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
            made = "main script, main img, main iframe, main svg:not(.icon), main style"
            assert await page.locator(made).count() == 0
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}
