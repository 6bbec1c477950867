"""Mail commands for reminders."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Final

import structlog
from pydantic import ValidationError

from domain.languages import language_tag
from domain.reminders import Reminder, ReviewableOrder
from domain.review_tokens import sign_token, tokens_of
from domain.review_urls import review_url
from domain.stores import Store
from domain.templates import MailTemplate, TemplateScope, by_preference, template_id
from messaging.mails import MailCommand, MailItem
from messaging.templates.order_review_request import (
    DEFAULT_ORDER_REVIEW_REQUEST,
    ORDER_REVIEW_REQUEST,
    order_review_context,
    shortened,
)
from messaging.templates.rendering import PARTS, RenderedMail, TemplateError, render
from storage.templates import TemplateRepository

log = structlog.get_logger()

LINKS_LENGTH: Final = 50_000
"""Maximum number of characters of all links in a mail's HTML, far more than usual; further items go without a link."""

_MOST_CHARACTERS: Final = 4_000_000
"""Maximum number of characters of cached templates, each of up to four bytes in memory."""

_ENTRY_CHARACTERS: Final = 500
"""Characters that a store and language count for beyond their templates, since most have none."""

Templates = Mapping[TemplateScope, MailTemplate]


class UnwritableMailError(Exception):
    """No mail can be written for this order. The message says why, without personal data."""


class SavedTemplates:
    """Reads the templates of a batch, once for each store and language while the cache has room.

    Their number is unbounded: stores may have any number, also in languages that nobody speaks.
    """

    def __init__(self, templates: TemplateRepository) -> None:
        self._templates = templates
        self._by_scope: dict[TemplateScope, Templates] = {}
        self._cached_characters = 0

    async def usable(self, order: ReviewableOrder, store: Store | None) -> Templates:
        """The templates by which the mail about an order can be written, by scope."""
        scope = order.store_id, _language(order, store)
        if scope not in self._by_scope:
            found = await self._templates.usable(ORDER_REVIEW_REQUEST, *scope)
            texts = [getattr(template, part) for template in found.values() for part in PARTS]
            size = _ENTRY_CHARACTERS + sum(map(len, texts))
            if self._cached_characters + size > _MOST_CHARACTERS:
                self._by_scope, self._cached_characters = {}, 0
            self._by_scope[scope] = found
            self._cached_characters += size
        return self._by_scope[scope]


@dataclass(frozen=True, slots=True)
class MailWriter:
    """Writes the reminders of a run by saved templates, which the caller reads beforehand.

    A failing template is logged once, and the next best one takes its place.
    """

    sender: str | None
    """Sender of mails if the store has no address; None: the mailer's."""
    token_key: bytes
    """The key that signs the tokens in links."""
    now: datetime
    """The time of the run, from which these tokens are valid for their period."""
    _failed: set[TemplateScope] = field(default_factory=set)

    def command(
        self, reminder: Reminder, order: ReviewableOrder, store: Store | None, usable: Templates
    ) -> MailCommand:
        """The command that sends a reminder; its CPU time grows with the template. Raises UnwritableMailError."""
        try:
            mail = self._render(reminder, order, store, usable)
            return MailCommand(
                id=reminder.id,
                template=ORDER_REVIEW_REQUEST,
                to=reminder.to,
                from_=(store.email if store else None) or self.sender,
                subject=mail.subject,
                text=mail.text,
                html=mail.html,
                language_code=_language(order, store),
                store_id=order.store_id,
                order_id=order.id,
                order_number=order.number,
                customer_id=reminder.customer_id,
                items=tuple(MailItem(product_id=i.product_id, name=shortened(i.name)) for i in reminder.items),
            )
        except TemplateError as error:
            raise UnwritableMailError(str(error)) from error
        except ValidationError as error:
            wrong = ", ".join(str(detail["loc"][0]) for detail in error.errors(include_input=False))
            raise UnwritableMailError(f"invalid field of a mail: {wrong}") from error

    def _items(
        self, reminder: Reminder, order: ReviewableOrder, store: Store | None
    ) -> Iterator[tuple[str, str, str | None]]:
        """The id and name of each item, and the URL to write a review of it, if the store has such a page."""
        template = store.settings.review_url if store else None
        language, room = _language(order, store), LINKS_LENGTH
        for item, token in zip(reminder.items, tokens_of(reminder, order, self.now), strict=True):
            url = None
            if template:
                text = sign_token(token, self.token_key)
                url = review_url(template, token, text, language)
                room -= len(escape(url or ""))
            yield item.product_id, item.name, url if room >= 0 else None

    def _render(
        self, reminder: Reminder, order: ReviewableOrder, store: Store | None, usable: Templates
    ) -> RenderedMail:
        language = _language(order, store)
        context = order_review_context(
            order_id=order.id,
            order_number=order.number,
            customer_id=reminder.customer_id,
            customer_name=order.customer.name,
            store_id=order.store_id,
            store_name=store.name if store else None,
            store_email=store.email if store else None,
            language_code=language,
            items=self._items(reminder, order, store),
        )
        for scope, template in by_preference(usable, order.store_id, language):
            try:
                return render(template, context)
            except TemplateError as error:
                if scope not in self._failed:
                    self._failed.add(scope)
                    name = template_id(ORDER_REVIEW_REQUEST, *scope)
                    log.warning("template failed; using the next best one", template=name, error=str(error))
        return render(DEFAULT_ORDER_REVIEW_REQUEST, context)


def _language(order: ReviewableOrder, store: Store | None) -> str | None:
    """The language of the order, else the first language of its store, as a tag."""
    if code := (order.customer.language_code or "").strip():
        return language_tag(code)
    return next(map(language_tag, store.languages), None) if store else None
