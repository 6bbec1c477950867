"""The size of a store's feed, estimated before it is written."""

import bson

from domain.reviews import ReviewStatus
from storage.reviews.extents import Extents
from storage.reviews.search import ReviewSearch
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.service import Json


async def test_object_facts_count_with_each_review_of_the_object(desk: Desk) -> None:
    store, other = await desk.open_store(), new_id()
    given = [desk.review(storeId=store, userId=f"u-{n}") for n in range(3)]
    given.append(desk.review(storeId=store, userId="v", EntityId=other))
    await desk.submit(desk.records(*given))
    search = ReviewSearch(statuses=[ReviewStatus.NEW], store_id=store, take=100)
    before = await Extents(desk.database).extent(search)
    assert (before.reviews, before.images, before.object_bytes) == (4, 0, 0)
    documents = [await desk.stored(each["id"]) for each in given]
    assert before.bytes == sum(len(bson.encode(each)) for each in documents)
    places = [(desk.product, store), (desk.product, None), (desk.product, "elsewhere"), (other, None)]
    objects: list[Json] = [
        {"_id": {"entityType": "Product", "entityId": id, "storeId": place}, "facts": {"gtins": ["1"] * number}}
        for number, (id, place) in enumerate(places, 1)
    ]
    await desk.database["objects"].insert_many(objects)
    of_store, of_all, _, others = (len(bson.encode(each)) for each in objects)
    assert await Extents(desk.database).extent(search) == before
    assert await Extents(desk.database).object_bytes(search) == 3 * (of_store + of_all) + others
    nothing = ReviewSearch(store_id=new_id(), take=9)
    assert (await Extents(desk.database).extent(nothing)).reviews == 0
    assert await Extents(desk.database).object_bytes(nothing) == 0
