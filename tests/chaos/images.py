"""Load and expectations of images: each acknowledged one is there until its review is deleted or drops it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.actors import REVIEWS, Actor, World
from tests.chaos.clients import Http
from tests.chaos.model import Json, Model
from tests.chaos.outcomes import APPLIED, NOT_FOUND, UNCHANGED
from tests.support.images import IMAGES, picture

_PICTURES = [picture((12, 8), kind, colour) for kind in ("PNG", "JPEG") for colour in ("red", "green")]


class Photographer(Actor):
    """Uploads images, submits reviews that use them, and edits, hides, shows and deletes. It doesn't moderate
    otherwise."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.own_ids: list[str] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        submissions = [(self.submit, 3), (self.upload_unused, 1)]
        return [*submissions, (self.change, 2), (self.hide, 2), (self.delete, 1)] if self.own_ids else submissions

    async def upload(self) -> str:
        answer = await self.world.http.send("POST", IMAGES, self.rng.choice(_PICTURES), key=self.new_id("key"))
        if answer.status not in (200, 202):
            self.world.ledger.report_unexpected(f"upload refused: {answer}")
        id: str = answer.body["id"]
        self.world.model.images[id] = None
        self.world.model.outcomes.expect(answer.command, id, APPLIED)
        self.world.model.outcomes.if_gone[answer.body["commandId"], id] = NOT_FOUND
        self.acknowledge("uploaded", id)
        return id

    async def upload_unused(self) -> None:
        await self.upload()

    async def submit(self) -> None:
        ids = [await self.upload() for _ in range(self.rng.randint(1, 2))]
        review = self.review(id=self.review_id(), images=ids)
        if self.rng.random() < 0.5:
            await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
            # An edit or deletion by HTTP could overtake it.
            await self.until(lambda: self.world.http.send("GET", f"{REVIEWS}/{review['id']}"), 200)
            self.world.model.submit(review["id"], review)
        else:
            answer = await self.world.http.wait_for("POST", REVIEWS, [review], key=self.new_id("key"))
            self.world.model.submit(review["id"], review, answer.command)
        self._set_images(review["id"], ids)
        self.own_ids.append(review["id"])

    async def change(self) -> None:
        """Replace all images of a review but one by a new one."""
        id = self.rng.choice(self.own_ids)
        model = self.world.model
        images = [*model.images_of(id)[:1], await self.upload()]
        known = model.reviews[id]
        review = self.review(
            id=id, EntityId=known.entity, storeId=known.store, title=self.new_id("edit"), images=images
        )
        answer = await self.world.http.wait_for("POST", REVIEWS, [review], key=self.new_id("key"))
        model.edit(id, review, is_reset=False, command=answer.command)
        self._set_images(id, images)

    async def hide(self) -> None:
        id = self.rng.choice(self.own_ids)
        image, action = self.rng.choice(self.world.model.images_of(id)), self.rng.choice(("hide", "show"))
        model, path = self.world.model, f"{REVIEWS}/{id}/images/{image}/{action}"
        answer = await self.world.http.wait_for("POST", path, None, key=self.new_id("key"))
        is_changed = (image in model.hidden_images) is not (action == "hide")
        model.outcomes.expect(answer.command, image, APPLIED if is_changed else UNCHANGED)
        (model.hidden_images.add if action == "hide" else model.hidden_images.discard)(image)
        self.acknowledge(action, image, id)

    async def delete(self) -> None:
        id = self.own_ids.pop(self.rng.randrange(len(self.own_ids)))
        answer = await self.world.http.wait_for("DELETE", REVIEWS, {"ids": [id]}, key=self.new_id("key"))
        self.world.model.moderate("delete", id, command=answer.command)
        self._set_images(id, [])

    def _set_images(self, review_id: str, ids: Sequence[str]) -> None:
        """Record that the review has exactly these images; others that it had must be deleted."""
        model = self.world.model
        model.deleted_images |= set(model.images_of(review_id)) - set(ids)
        model.images |= dict.fromkeys(ids, review_id)
        for gone in model.deleted_images & model.images.keys():
            del model.images[gone]
        self.acknowledge(f"images {list(ids)}", review_id, *ids)


async def wrong_images(http: Http, model: Model) -> list[tuple[str, str]]:
    """Id of each image that differs from the model, with a description. Without API keys everyone sees hidden
    images."""
    turns = asyncio.Semaphore(8)

    async def status(id: str) -> tuple[str, bool]:
        async with turns:
            return id, await http.has(f"{IMAGES}/{id}?size=320")

    shown = dict(await asyncio.gather(*map(status, [*model.images, *model.deleted_images])))
    wrong = [(id, "image is missing") for id in model.images if not shown[id]]
    wrong += [
        (id, "image still exists after its review was deleted or dropped it")
        for id in model.deleted_images
        if shown[id]
    ]
    for review_id in {each for each in model.images.values() if each}:
        row: Json = (await http.send("GET", f"{REVIEWS}/{review_id}")).body
        expected = [{"id": id, "hidden": id in model.hidden_images} for id in model.images_of(review_id)]
        if sorted(row.get("images", ()), key=str) != sorted(expected, key=str):
            wrong.append((review_id, f"images {row.get('images')}, expected {expected}"))
    return wrong
