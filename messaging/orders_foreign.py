"""Orders as Virto Commerce, Shopify and commercetools write them, converted to the fields of an order event.

A system is recognised by the field of its lines, and by a field that its orders always have: `items` is ours and
Virto's, `line_items` with a `financial_status` Shopify's, `lineItems` with an `orderState` commercetools'. Such lines
in other orders are refused, because nothing else of those would be read. Ids may be numbers, and quantities and prices
strings. A value that can't be converted is left alone, so that the validation of the event reports it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from messaging.reading_errors import DUPLICATE_FIELD, InputError, InvalidContentError, pointer
from messaging.reading_shapes import folded_name

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_IDS: Final = frozenset({"id", "number", "storeid", "customerid", "productid"})
_MAX_AMOUNT: Final = 10**18
_CANCELLED: Final = "Cancelled"
_COMPLETE: Final = "Complete"
_NOT_UNDERSTOOD: Final = "not-understood"
_OWN_LINES: Final = "the lines of an order with Plaudit's field names are in `items`"


class _System(NamedTuple):
    """A system whose orders are recognised."""

    name: str
    lines: str
    """The field of its lines."""
    marks: tuple[str, ...]
    """Fields of which its orders always have at least one."""
    not_read: tuple[str, ...]
    """Fields of other formats that it wouldn't read: an order with one of them is refused."""
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Converts an order, by its folded field names."""


def order_fields(value: Any) -> Any:
    """The order with the fields of an order event.

    Raises InvalidContentError for a duplicate field, and for lines of a system in an order that isn't from that system.
    """
    if not isinstance(value, dict):
        return value
    fields = _fold_unchecked(value)
    for system in _SYSTEMS if fields.get("items") is None else ():
        is_marked = any(mark.casefold() in fields for mark in system.marks)
        if system.lines.casefold() in fields and is_marked:
            return _convert(value, system)
        if fields.get(system.lines.casefold()) is not None:
            raise _not_understood_error(value, system.lines, _foreign_lines_message(system))
    return _convert_own(value)


def _convert(received: Mapping[str, Any], system: _System) -> dict[str, Any]:
    """Convert the order of a system. Raises InvalidContentError for a duplicate field, or for one of another format."""
    order = _fold(received)
    for name in system.not_read:
        if order.get(name.casefold()) is not None:
            raise _not_understood_error(
                received, name, f"`{name}` is not read in an order of {system.name}: {_OWN_LINES}"
            )
    return system.read(order)


def _foreign_lines_message(system: _System) -> str:
    marks = " or ".join(f"`{mark}`" for mark in system.marks)
    return f"`{system.lines}` is read in orders of {system.name}, which have {marks}: {_OWN_LINES}"


def _not_understood_error(received: Mapping[str, Any], name: str, message: str) -> InvalidContentError:
    """The error of a field, under its name as received."""
    as_received = next(each for each in received if folded_name(each) == name.casefold())
    return InvalidContentError([InputError(pointer((as_received,)), _NOT_UNDERSTOOD, message)])


def _convert_own(received: Mapping[str, Any]) -> dict[str, Any]:
    """An order with our field names, which are Virto's. They match in any letter case, so they stay as they are."""
    order = {name: _as_text(value) if folded_name(name) in _IDS else value for name, value in received.items()}
    for name, value in received.items():
        if folded_name(name) == "items" and isinstance(value, list):
            order[name] = [_convert_own_line(line) for line in value if line is not None]
    emails = [name for name in received if folded_name(name) == "customeremail"]
    if all(_is_missing(received[name]) for name in emails) and len(emails) < 2:
        addresses = _fold_unchecked(received).get("addresses")
        order[next(iter(emails), "customerEmail")] = _first(
            _nested(each, "addresses", index).get("email")
            for index, each in enumerate(addresses if isinstance(addresses, list) else ())
        )
    return order


def _convert_own_line(line: Any) -> Any:
    if not isinstance(line, dict):
        return line
    fixed = dict(line)
    for name, value in line.items():
        if folded_name(name) in _IDS:
            fixed[name] = _as_text(value)
        elif folded_name(name) in ("quantity", "price"):
            fixed[name] = _as_number(value)
    return fixed


def _shopify(order: Mapping[str, Any]) -> dict[str, Any]:
    """The Order of Shopify's Admin REST API, as webhooks send it."""
    customer, billing = (_nested(order.get(name), name) for name in ("customer", "billing_address"))
    fulfilled = order.get("fulfillment_status")
    is_cancelled = order.get("cancelled_at") not in (None, "")
    status = _COMPLETE if fulfilled == "fulfilled" else _first((fulfilled, order.get("financial_status"), "New"))
    return {
        "id": _as_text(order.get("id")),
        "number": _as_text(_first((order.get("name"), order.get("order_number"), order.get("number")))),
        "status": _CANCELLED if is_cancelled else status,
        "isCancelled": is_cancelled,
        "storeId": _as_text(order.get("storeid")),
        "customerId": _as_text(customer.get("id")),
        "customerName": _first((_full_name(customer, "first_name", "last_name"), billing.get("name"))),
        "customerEmail": _first((order.get("email"), order.get("contact_email"), customer.get("email"))),
        "languageCode": order.get("customer_locale"),
        "createdDate": order.get("created_at"),
        "modifiedDate": order.get("updated_at"),
        "items": _convert_lines(order.get("line_items"), "line_items", _shopify_line),
    }


def _commercetools(order: Mapping[str, Any]) -> dict[str, Any]:
    """The Order of commercetools' HTTP API."""
    addresses = [_nested(order.get(name.lower()), name) for name in ("billingAddress", "shippingAddress")]
    locale = order.get("locale")
    read_line = partial(_commercetools_line, locale)
    lines = _convert_lines(order.get("lineitems"), "lineItems", read_line)
    others = _convert_lines(order.get("customlineitems"), "customLineItems", read_line)
    # Left to the validation, which reports them.
    wrong = [each for each in (lines, others) if not isinstance(each, list)]
    return {
        "id": _as_text(order.get("id")),
        "number": _as_text(order.get("ordernumber")),
        "status": order.get("orderstate"),
        "storeId": _as_text(_first((order.get("storeid"), _nested(order.get("store"), "store").get("key")))),
        "customerId": _as_text(order.get("customerid")),
        "customerName": _first(_full_name(each, "firstname", "lastname") for each in addresses),
        "customerEmail": _first((order.get("customeremail"), *(each.get("email") for each in addresses))),
        "languageCode": locale,
        "createdDate": order.get("createdat"),
        "modifiedDate": order.get("lastmodifiedat"),
        "items": wrong[0] if wrong else [*lines, *others],
    }


_SYSTEMS: Final = (
    _System(
        name="Shopify",
        lines="line_items",
        marks=("financial_status", "fulfillment_status", "admin_graphql_api_id"),
        not_read=("status", "customerId", "customer_id", "customerName", "customerEmail", "modifiedDate"),
        read=_shopify,
    ),
    _System(
        name="commercetools",
        lines="lineItems",
        marks=("orderState",),
        not_read=("status", "customerName", "modifiedDate"),
        read=_commercetools,
    ),
)


def _shopify_line(line: Mapping[str, Any]) -> dict[str, Any]:
    return _line(line, product=line.get("product_id"), name=_first((line.get("title"), line.get("name"))))


def _commercetools_line(locale: Any, line: Mapping[str, Any]) -> dict[str, Any]:
    return _line(line, product=line.get("productid"), name=_in_language(line.get("name"), locale))


def _line(line: Mapping[str, Any], *, product: Any, name: Any) -> dict[str, Any]:
    return {
        "id": _as_text(line.get("id")),
        "productId": _as_text(product),
        "name": name,
        "quantity": _as_number(line.get("quantity")),
        "price": _price(_first((line.get("price"), line.get("money")))),
    }


def _price(value: Any) -> Any:
    """The price of one piece: a number, a string, or money in cents; the discounted price if there is one."""
    if not isinstance(value, dict):
        return _as_number(value)
    price = _fold_unchecked(value)
    money = _fold_unchecked(_first((_fold_unchecked(price.get("discounted")).get("value"), price.get("value"), price)))
    amount, digits = _first((money.get("preciseamount"), money.get("centamount"))), money.get("fractiondigits", 2)
    if type(amount) is int and abs(amount) < _MAX_AMOUNT and type(digits) is int and 0 <= digits <= 20:
        return amount / 10**digits
    return value


def _convert_lines(value: Any, name: str, read: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """The lines of an order, empty for null. A value that isn't an array stays as it is, and so do items that aren't
    objects.

    Raises InvalidContentError for a duplicate field.
    """
    if not isinstance(value, list):
        return [] if value is None else value
    return [read(_fold(line, name, index)) if isinstance(line, dict) else line for index, line in enumerate(value)]


def _fold(received: Mapping[str, Any], *path: str | int) -> dict[str, Any]:
    """The fields by their folded names. Raises InvalidContentError for a duplicate one."""
    folded: dict[str, Any] = {}
    for name, value in received.items():
        if folded_name(name) in folded:
            message = "The field is given twice; letter case is ignored"
            raise InvalidContentError([InputError(pointer((*path, name)), DUPLICATE_FIELD, message)])
        folded[folded_name(name)] = value
    return folded


def _nested(value: Any, *path: str | int) -> dict[str, Any]:
    """The fields of a nested object; empty if it isn't an object. Raises InvalidContentError for a duplicate one."""
    return _fold(value, *path) if isinstance(value, dict) else {}


def _fold_unchecked(received: Any) -> dict[str, Any]:
    return {folded_name(name): value for name, value in received.items()} if isinstance(received, dict) else {}


def _first(values: Iterable[Any]) -> Any:
    """The first value that isn't missing; None without one."""
    return next((value for value in values if not _is_missing(value)), None)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _full_name(person: Mapping[str, Any], *names: str) -> str | None:
    parts = [part for name in names if isinstance(part := person.get(name), str) and part]
    return " ".join(parts) or None


def _in_language(names: Any, language: Any) -> Any:
    """The name in this language, else the first one."""
    if not isinstance(names, dict):
        return names
    own = names.get(language) if isinstance(language, str) else None
    return _first((own, *names.values()))


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _as_number(value: Any) -> Any:
    """The number in a string; other values stay as they are."""
    if not (isinstance(value, str) and _DECIMAL.fullmatch(value.strip())):
        return value
    number = float(value)
    return int(value) if number.is_integer() and "." not in value else number
