"""Photos that no moderator has seen, in the console."""

import re
from typing import Any

import pytest

from domain.permissions import Permission
from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import ROW, Asked, faked

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
    assert ("Remove the filter photos: unseen" in page.text) is bool(wanted)


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
    app = faked([Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS], {"customerReviews/r": (200, row)})
    async with client_of(app) as http:
        page = (await http.get("/console/reviews/r")).text
    figures = [part.partition("</figure>")[0] for part in page.split("<figure")[1:]]
    (found,) = [re.findall(r"<button[^>]*>(.*?)</button>", each, re.DOTALL) for each in figures if "<button" in each]
    assert [each.strip() for each in found] == buttons
