"""Erasure of a person: removal of their personal data from orders and returns, and search for messages about them."""

import hmac
import json
import re
from base64 import b64decode
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from domain.addresses import address_in, bare_address, is_usual
from domain.orders import Customer, Order, OrderLine, currency_in
from domain.returns import Return

_ORDER_FIELDS: Final = ("id", "number", "status", "storeId", "createdDate", "modifiedDate")
_ITEM_FIELDS: Final = ("id", "productId", "name", "quantity", "price")

_PERSON_FIELDS: Final = frozenset(
    {
        *("userid", "customerid", "user", "customer", "author", "uploader", "moderator", "createdby", "modifiedby"),
        *("email", "customeremail"),
    }
)
_ORDER_ID_FIELDS: Final = frozenset({"orderid", "customerorderid"})
_UNEXPECTED: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The errors of reading JSON of another shape, or what is no JSON."""

_DATA_FIELD: Final = "database64"
"""The normalised name of the field with binary data of a CloudEvent in structured mode."""

MOST_PARSED: Final = 200
"""Maximum number of unusual mail addresses in a message that are parsed."""
MOST_EMBEDDED: Final = 3
"""Maximum number of levels of JSON within JSON strings that are searched."""
MOST_BROKEN: Final = 10_000
"""Maximum number of strings that begin like JSON but aren't; a message with more is searched as plain text."""
_BEGINS: Final = ("{", "[", '"')
"""The first characters of strings that may be JSON with field names in it."""

_WORDS: Final = re.compile(r'"([^"]*)"|([^\s"\'\\,:;{}\[\]()<>=&]+)')
"""Quoted strings, and words between punctuation."""
_PLAIN_WORD: Final = re.compile(r"[\w-]+")


def is_of(customer: Customer, person: str) -> bool:
    """True if the customer of an order is this person: by id, or by mail address for a guest, who has no id."""
    if customer.id is not None:
        return customer.id == person
    address, wanted = customer.address, address_in(person.strip())
    return address is not None and wanted is not None and address.casefold() == wanted.casefold()


def order_without_customer(order: Order) -> Order:
    """The order with its quantities and prices, but without its customer.

    Its marks stay, so that known events can't bring the customer back. A newer event can.
    """
    return replace(order, customer=Customer(), former_customers=(), body=_body_without_person(order))


def return_without_customer(stored: Return, customer_id: str) -> Return:
    """The return with its quantities, but without the customer's free text and name; other names stay."""
    return _without_free_text(return_without_name(stored, customer_id))


def without_person(stored: Return, customer: Customer | None, customer_id: str) -> Return:
    """The return without a person's name, and unless the customer of its order is another, without its free text."""
    return (
        return_without_name(stored, customer_id)
        if is_another(customer, customer_id)
        else return_without_customer(stored, customer_id)
    )


def is_another(customer: Customer | None, customer_id: str) -> bool:
    """True if the customer of an order, guests included, is another; an order whose customer was erased names none."""
    if customer is None or not any((customer.id, customer.name, customer.email)):
        return False
    return not is_of(customer, customer_id)


def return_without_name(stored: Return, customer_id: str) -> Return:
    """The return without the name of a person who created or changed it; all free text and other names stay."""
    return _with_names(stored, lambda by: None if by == customer_id else by)


def part_in_return(stored: Return, customer_id: str) -> Return:
    """A person's part in another customer's return: their name, without free text and other names."""
    return _without_free_text(_with_names(stored, lambda by: by if by == customer_id else None))


def return_command_without_customer(value: bytes, customer_id: str) -> bytes | None:
    """The command about a return with its quantities, but without the customer's free text and name; None if the value
    is no such command."""
    try:
        command = json.loads(value)
        if command.get("user") == customer_id:
            del command["user"]
        wanted = command["return"]
        wanted.pop("resolution", None)
        for line in wanted.get("lineItems") or ():
            line.pop("reason", None)
        return json.dumps(command, ensure_ascii=False).encode()
    except _UNEXPECTED:
        return None


def erasure_mark(customer_id: str, key: bytes) -> str:
    """The mark of an erasure, which doesn't name the person: the HMAC-SHA-256 of the id, in hexadecimal."""
    return hmac.digest(key, customer_id.encode(errors="surrogatepass"), "sha256").hex()


def people_in(value: bytes) -> set[str]:
    """The ids of the people that a message concerns or comes from, in JSON of any shape, also within JSON strings.
    Numbers are returned as text; mail addresses also in lower case, without names.

    In a message that is not JSON, every word that could be an id.
    """
    try:
        people = {id for name, id in _named_strings(value) if name in _PERSON_FIELDS}
    except (ValueError, RecursionError):
        people = {word for words in _WORDS.findall(_decoded(value)) for word in words if word}
    return people | _folded_addresses(people)


class MessageSearch:
    """Finds messages about a customer: by id, by one of these mail addresses in any letter case, or by one of their
    orders. Made once for many messages, as a customer may have thousands of orders."""

    def __init__(self, customer_id: str, order_ids: Collection[str], addresses: Collection[str] = frozenset()) -> None:
        self._customer = customer_id
        self._orders = frozenset(order_ids)
        self._addresses = _folded_addresses(addresses)
        self._ids_in_text = _Words({customer_id, *order_ids})
        self._addresses_in_text = _Words(self._addresses)

    def is_about(self, value: bytes) -> bool:
        """True if a message concerns the customer. A message that is not JSON is searched as plain text."""
        try:
            named = set(_named_strings(value))
        except (ValueError, RecursionError):
            text = _decoded(value)
            return self._ids_in_text.occur_in(text) or self._addresses_in_text.occur_in(text.casefold())
        people = {id for name, id in named if name in _PERSON_FIELDS}
        orders = {id for name, id in named if name in _ORDER_ID_FIELDS}
        is_theirs = self._customer in people or not _folded_addresses(people).isdisjoint(self._addresses)
        return is_theirs or not orders.isdisjoint(self._orders)


def _folded_addresses(people: Collection[str]) -> set[str]:
    """The mail addresses among these, without names and in lower case. Parsing unusual ones is slow, and a text can be
    full of them: beyond MOST_PARSED, the text between angle brackets is taken for the address."""
    addresses = [person for person in people if "@" in person]
    unusual = [address for address in addresses if not is_usual(address)]
    bare = map(bare_address, unusual[:MOST_PARSED])
    others = (address.rpartition("<")[2].rstrip("> ") for address in unusual[MOST_PARSED:])
    return {address.casefold() for address in (*filter(is_usual, addresses), *bare, *others)}


def _with_names(stored: Return, name: Callable[[str | None], str | None]) -> Return:
    """The return with each name replaced by the result of `name`."""
    return replace(
        stored,
        created_by=name(stored.created_by),
        modified_by=name(stored.modified_by),
        lines=tuple(
            replace(line, created_by=name(line.created_by), modified_by=name(line.modified_by)) for line in stored.lines
        ),
    )


def _without_free_text(stored: Return) -> Return:
    lines = tuple(replace(line, reason=None) for line in stored.lines)
    return replace(stored, resolution=None, origin=None, lines=lines)


def _name_of(name: str) -> str:
    """The normalised name of a field: `customer_id` and `Customer-Id` are `customerid`."""
    return name.casefold().replace("_", "").replace("-", "")


# Numbers stay as written, and objects keep duplicate fields. Created once, since a message may hold many strings.
_DECODER: Final = json.JSONDecoder(
    parse_int=str,
    parse_float=lambda text: text.removesuffix(".0"),
    object_pairs_hook=lambda fields: tuple((_name_of(name), content) for name, content in fields),
)


def _named_strings(value: bytes) -> Iterator[tuple[str, str]]:
    """The normalised names and the strings of all fields, at any depth, also in JSON within a string or event data; for
    a field that holds an object, its id. Raises ValueError and RecursionError."""
    broken = 0
    text = value.decode(json.detect_encoding(value), "surrogatepass")
    waiting: list[tuple[Any, int]] = [(_DECODER.decode(text), MOST_EMBEDDED)]
    while waiting:
        node, levels = waiting.pop()
        if isinstance(node, list):
            waiting += [(each, levels) for each in node]
        elif isinstance(node, str):
            if levels and node.lstrip()[:1] in _BEGINS:
                try:
                    waiting.append((_DECODER.decode(node), levels - 1))
                except ValueError:
                    broken += 1
                    if broken > MOST_BROKEN:
                        raise
        elif isinstance(node, tuple):
            for name, content in node:
                ids = [id for key, id in content if key == "id"] if isinstance(content, tuple) else [content]
                yield from ((name, id) for id in ids if id and isinstance(id, str))
                waiting.append((_from_base64(content) if name == _DATA_FIELD else content, levels))


def _from_base64(content: Any) -> Any:
    """The text that is encoded in base64; other content unchanged."""
    try:
        return b64decode(content).decode()
    except (TypeError, ValueError):
        return content


def _decoded(value: bytes) -> str:
    return value.decode(errors="replace")


class _Words:
    """Finds ids in a text as separate words, verbatim or escaped as in JSON. An empty id is in no text."""

    def __init__(self, ids: Collection[str]) -> None:
        written = {
            form
            for id in ids
            if id
            for form in (id, *(json.dumps(id, ensure_ascii=each)[1:-1] for each in (True, False)))
        }
        # Nearly all: their number costs no time.
        self._plain = frozenset(each for each in written if _PLAIN_WORD.fullmatch(each))
        others = "|".join(map(re.escape, written - self._plain))
        self._others = re.compile(rf"(?<![\w-])(?:{others})(?![\w-])") if others else None

    def occur_in(self, text: str) -> bool:
        """True if one of the ids occurs in the text."""
        if self._others is not None and self._others.search(text):
            return True
        return not self._plain.isdisjoint(_PLAIN_WORD.findall(text))


def _body_without_person(order: Order) -> bytes:
    """The JSON of fields that don't concern the customer: as received, or from the order if its body has none."""
    try:
        fields = {name.casefold(): content for name, content in json.loads(order.body).items()}
    except _UNEXPECTED:  # NO_BODY, or a damaged one
        fields = {}
    kept = _selected(fields, _ORDER_FIELDS)
    items = fields.get("items")
    if isinstance(items, list):
        lines = [{n.casefold(): content for n, content in item.items()} for item in items if isinstance(item, Mapping)]
        kept["items"] = [_selected(line, _ITEM_FIELDS) for line in lines]
    elif order.lines:
        known = {"id": order.id, "number": order.number, "status": order.status, "storeId": order.store_id}
        kept = {**known, "items": [_shown_line(line) for line in order.lines]}
    if currency := currency_in(fields):
        kept["currency"] = currency
    return json.dumps(kept, ensure_ascii=False).encode()


def _shown_line(line: OrderLine) -> dict[str, Any]:
    return dict(zip(_ITEM_FIELDS, (line.id, line.product_id, line.name, line.quantity, line.price), strict=True))


def _selected(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The fields with these names, from a mapping by folded names."""
    return {name: fields[name.casefold()] for name in names if name.casefold() in fields}
