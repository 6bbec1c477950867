"""Photos that no moderator has seen, in the console."""

import re
from typing import Any

import pytest

from domain.permissions import Permission
from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import ROW, Asked, faked, get_page

LIST, PHOTO = "customerReviews/search", "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"
UNSEEN = {**ROW, "images": [{"id": PHOTO, "hidden": True}], "unseenImages": [PHOTO]}


@pytest.mark.parametrize(("query", "wanted"), [({}, None), ({"photos": "unseen", "status": "Approved"}, True)])
async def test_list_of_reviews_has_those_with_photos_to_check(query: dict[str, str], wanted: bool | None) -> None:
    asked: list[Asked] = []
    app = faked([Permission.READ_REVIEWS], {LIST: (200, {"results": [UNSEEN]})}, asked)
    async with client_of(app) as http:
        page = await http.get("/console/reviews", params=query)
    (search,) = [each.body for each in asked if each.path == LIST]
    assert (search["unseenImages"], search["reviewStatus"]) == (wanted, query.get("status"))
    assert "photos to check" in text_of(page.text)
    assert ('href="/console/reviews?status=Approved&amp;photos=unseen"' in page.text) is (wanted is None)
    assert ("Remove the filter Photos: unseen" in page.text) is bool(wanted)


@pytest.mark.parametrize(
    ("image", "unseen", "buttons"),
    [
        ({"id": PHOTO, "hidden": True}, [PHOTO], ["Show", "Keep hidden"]),
        ({"id": PHOTO, "hidden": True}, [], ["Show again"]),
        ({"id": PHOTO, "hidden": False}, [], ["Hide"]),
    ],
)
async def test_moderators_show_an_unseen_photo_or_keep_it_hidden(
    image: dict[str, Any], unseen: list[str], buttons: list[str]
) -> None:
    row = {**ROW, "reviewStatus": "Approved", "images": [image], "unseenImages": unseen}
    readers = [Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS]
    page = (await get_page("/console/reviews/r", {"customerReviews/r": (200, row)}, readers)).text
    figures = [part.partition("</figure>")[0] for part in page.split("<figure")[1:]]
    (found,) = [re.findall(r"<button[^>]*>(.*?)</button>", each, re.DOTALL) for each in figures if "<button" in each]
    assert [each.strip() for each in found] == buttons


@pytest.mark.parametrize(("hidden", "shown"), [([False, False], 0), ([True, False], 1), ([True, True], 0), ([], None)])
async def test_queue_shows_a_photo_that_the_public_sees_if_there_is_one(hidden: list[bool], shown: int | None) -> None:
    images = [{"id": f"i{number}", "hidden": each} for number, each in enumerate(hidden)]
    page = (await get_page("/console/queue", {LIST: (200, {"results": [{**ROW, "images": images}]})})).text
    found = re.findall(r'<img class="(thumb[^"]*)"[^>]*src="/console/images/([^"?]+)\?size=320">', page)
    assert found == ([] if shown is None else [("thumb hidden" if hidden[shown] else "thumb", f"i{shown}")])
