"""Reminders as mails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from domain.mail_templates import MailTemplate, Place, best
from domain.reminders import CompletedOrder, Reminder
from domain.stores import Store
from messaging.mail_templates import (
    DEFAULT_ORDER_REVIEW_REQUEST,
    ORDER_REVIEW_REQUEST,
    RenderedMail,
    TemplateError,
    order_review_context,
    render,
)
from messaging.mails import MailCommand, MailItem

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MailWriter:
    """Writes reminders by the templates that were saved; `sender` is the address of mails that no store sends."""

    templates: Mapping[Place, MailTemplate]
    sender: str

    def command(self, reminder: Reminder, order: CompletedOrder, store: Store | None) -> MailCommand:
        """The command to send a reminder."""
        mail = self._rendered(reminder, order, store)
        return MailCommand(
            id=reminder.id,
            template=ORDER_REVIEW_REQUEST,
            to=reminder.to,
            from_=(store.email if store else None) or self.sender,
            subject=mail.subject,
            text=mail.text,
            html=mail.html,
            language_code=order.customer.language_code,
            store_id=order.store_id,
            order_id=order.id,
            order_number=order.number,
            customer_id=reminder.customer_id,
            items=tuple(MailItem(product_id=item.product_id, name=item.name) for item in reminder.items),
        )

    def _rendered(self, reminder: Reminder, order: CompletedOrder, store: Store | None) -> RenderedMail:
        context = order_review_context(
            order_id=order.id,
            order_number=order.number,
            customer_id=reminder.customer_id,
            customer_name=order.customer.name,
            store_id=order.store_id,
            store_name=store.name if store else None,
            store_email=store.email if store else None,
            language_code=order.customer.language_code,
            items=reminder.items,
        )
        template = best(self.templates, order.store_id, order.customer.language_code)
        if template is not None:
            try:
                return render(template, context)
            except TemplateError as error:
                log.warning("template failed; the default is used", store=order.store_id, error=str(error))
        return render(DEFAULT_ORDER_REVIEW_REQUEST, context)
