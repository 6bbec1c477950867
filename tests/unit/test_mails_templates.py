"""The cache of templates of one batch of reminders."""

from collections.abc import Mapping
from typing import cast

from domain.orders import Customer
from domain.reminders import ReviewableOrder
from domain.stores import Store
from domain.templates import MailTemplate, TemplateScope
from scheduler.mails import SavedTemplates
from storage.templates import TemplateRepository
from tests.support.reminders import NOON


class Repository:
    """A repository that has a template of the given length for each scope (None: no template) and records queries."""

    def __init__(self, characters: int | None) -> None:
        self.queries: list[TemplateScope] = []
        self._template = None if characters is None else MailTemplate("x", "x" * characters, "x")

    async def usable(
        self, name: str, store_id: str | None, language: str | None
    ) -> Mapping[TemplateScope, MailTemplate]:
        assert name == "OrderReviewRequest"
        self.queries.append((store_id, language))
        return {(store_id, language): self._template} if self._template else {}


def order(store: str | None, language: str | None) -> ReviewableOrder:
    customer = Customer("anna", language_code=language)
    return ReviewableOrder("1", None, "Complete", False, store, customer, status_since=NOON, items=())


async def test_each_store_and_language_is_queried_once() -> None:
    repository = Repository(1_000)
    templates = SavedTemplates(cast("TemplateRepository", repository))
    store = Store("store", languages=("DE_at",))
    for _ in range(3):
        assert set(await templates.usable(order("store", "fr"), store)) == {("store", "fr")}
        # Without a language of the customer, the first language of the store applies.
        assert set(await templates.usable(order("store", " "), store)) == {("store", "de-AT")}
        assert set(await templates.usable(order(None, None), None)) == {(None, None)}
    assert repository.queries == [("store", "fr"), ("store", "de-AT"), (None, None)]


async def test_absent_templates_use_cache_space_too() -> None:
    repository = Repository(None)
    templates = SavedTemplates(cast("TemplateRepository", repository))
    for number in range(10_000):
        assert await templates.usable(order(str(number), None), None) == {}
    assert len(templates._by_scope) < 9_000


async def test_evicted_templates_are_read_again() -> None:
    repository = Repository(1_500_000)
    templates = SavedTemplates(cast("TemplateRepository", repository))
    for language in ("aa", "bb", "aa", "cc", "cc", "aa"):
        assert set(await templates.usable(order("store", language), None)) == {("store", language)}
    assert repository.queries == [("store", language) for language in ("aa", "bb", "cc", "aa")]
