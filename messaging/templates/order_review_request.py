"""The mail that asks a customer to review an order: its data, sample data, and the built-in template."""

from collections.abc import Iterable
from typing import Any, Final

from domain.addresses import bare_address
from domain.templates import MailTemplate

ORDER_REVIEW_REQUEST: Final = "OrderReviewRequest"
"""The name of its template."""

LONGEST_NAME: Final = 200
"""Maximum characters of a name in a mail: with it, the built-in template can render any order."""


def order_review_context(
    *,
    order_id: str,
    order_number: str | None = None,
    customer_id: str | None = None,
    customer_name: str | None = None,
    store_id: str | None = None,
    store_name: str | None = None,
    store_email: str | None = None,
    language_code: str | None = None,
    items: Iterable[tuple[str, str | None, str | None]],
) -> dict[str, Any]:
    """The data of the mail; None if unknown. `items` are the products not yet reviewed: id, name, and the URL of the
    page where the customer writes."""
    return {
        "order": {"id": order_id, "number": shortened(order_number or order_id)},
        "customer": {"id": customer_id or None, "name": shortened(customer_name)},
        "store": store_context(store_id, store_name, store_email),
        "languageCode": language_code or None,
        "items": [
            {"productId": product_id, "name": shortened(name or product_id), "reviewUrl": review_url}
            for product_id, name, review_url in items
        ],
    }


def store_context(id: str | None, name: str | None, email: str | None) -> dict[str, str | None]:
    """The store in the data of the mail."""
    return {"id": id or None, "name": shortened(name or id), "email": bare_address(email or "") or None}


def shortened(name: str | None) -> str | None:
    """A name as mails show it, with at most `LONGEST_NAME` characters; None without one."""
    if not name:
        return None
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


SAMPLE_CONTEXT: Final = order_review_context(
    order_id="8b4e3c1f5a6d4e0f9c2b7a1d3e5f6a7b",
    order_number="CO220314-00001",
    customer_id="c2e5d1a4",
    customer_name="Anna Berg",
    store_id="Electronics",
    store_name="Electronics",
    store_email="shop@example.com",
    language_code="en-US",
    items=[
        ("9cbd8f316e254a679ba34a900fccb076", "3DR Solo Quadcopter", "https://shop.example/review?token=WyJFbGVjdHJv"),
        ("f9330eb5ed78427abb4dc4089bc37d9f", "Camera", "https://shop.example/review?token=WyJGbGFzaGxp"),
    ],
)
"""Data of a preview."""

SPARSE_CONTEXT: Final = order_review_context(order_id="1", store_id="1", language_code="en", items=[("1", None, None)])
"""Data of a mail with little more than the required fields."""

DEFAULT_ORDER_REVIEW_REQUEST: Final = MailTemplate(
    subject="How do you like what you bought{% if store.name %} at {{ store.name }}{% endif %}?",
    text="""\
Hello{% if customer.name %} {{ customer.name }}{% endif %},

thank you for your order {{ order.number }}. Others would like to know what you think of:

{% for item in items -%}
- {{ item.name }}{% if item.reviewUrl %}: {{ item.reviewUrl }}{% endif %}
{% endfor %}
A few words and a rating are enough.
{% if store.name %}
{{ store.name }}
{% endif %}""",
    html="""\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Your opinion</title></head>
<body style="font-family: sans-serif; line-height: 1.5">
<p>Hello{% if customer.name %} {{ customer.name }}{% endif %},</p>
<p>thank you for your order <strong>{{ order.number }}</strong>. Others would like to know what you think of:</p>
<ul>
{%- for item in items %}
<li>{% if item.reviewUrl %}<a href="{{ item.reviewUrl }}">{{ item.name }}</a>{% else %}{{ item.name }}{% endif %}</li>
{%- endfor %}
</ul>
<p>A few words and a rating are enough.</p>
{%- if store.name %}
<p>{{ store.name }}</p>
{%- endif %}
</body>
</html>
""",
)
"""The built-in template, used unless another one is saved."""
