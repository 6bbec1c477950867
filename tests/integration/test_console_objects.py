"""The console's pages of rated objects."""

import re
from functools import partial

import httpx
import pytest

from tests.support.console_pages import page_of, send_form
from tests.support.facade import Facade, new_id, submission
from tests.support.waiting import eventually

SCREEN = "/console/objects"


@pytest.mark.long
async def test_object_is_found_and_shown_with_both_values(facade: Facade, http: httpx.AsyncClient) -> None:
    store, brand = await facade.open_store(ratingCalculationMethod="wilson"), new_id("brand")
    product = new_id("camera/of slashes?")
    name = f"{brand} <camera>"
    await facade.submit_approved(*(submission(product, r, storeId=store, EntityName=name) for r in (5, 4, 4)))
    found = await eventually(partial(page_of, http, SCREEN, q=brand), lambda page: f"{brand} &lt;camera&gt;" in page)
    (link,) = re.findall(rf'<a href="({SCREEN}/Product/[^"]+)"', found)
    assert '<td class="n">4.33</td>' in found

    page = await page_of(http, link)
    assert f'<h1 dir="auto">{brand} &lt;camera&gt;</h1>' in page
    assert re.search(r"<dt>Average</dt><dd>4\.33</dd>\s*<dd class=\"n\">not in effect</dd>", page)
    assert re.findall(r'<meter min="0" max="3" value="(\d)"\s+aria-label="(\d) stars?">', page) == [
        *(("1", "5"), ("2", "4"), ("0", "3"), ("0", "2"), ("0", "1"))
    ]
    assert page.count("<rect ") == 12
    assert "style=" not in page

    response = await send_form(http, link, link, {"storeId": store})
    assert response.status_code == 303
    assert "The recount is under way" in await page_of(http, response.headers["location"])


@pytest.mark.long
async def test_object_list_and_unrated_objects(facade: Facade, http: httpx.AsyncClient) -> None:
    store = await facade.open_store()
    first, second, unrated = (new_id() for _ in range(3))
    for product, name in ((first, "A first one"), (second, "B second one")):
        await facade.submit_approved(submission(product, storeId=store, EntityName=name))
    listed = partial(page_of, http, SCREEN, store=store)
    page = await eventually(listed, lambda page: first in page and second in page)
    assert page.index(first) < page.index(second)
    assert "No rated object has a matching name" in await page_of(http, SCREEN, q=new_id("nothing"))
    await facade.submit(submission(unrated, storeId=store, EntityName="Camera <C>"))
    page = await page_of(http, f"{SCREEN}/Product/{unrated}")
    assert '<h1 dir="auto">Camera &lt;C&gt;</h1>' in page
    assert "there is no rating yet" in page
    assert '<h1 dir="auto">nothing</h1>' in await page_of(http, f"{SCREEN}/Product/nothing")
