from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.mail_templates import MailTemplate, best, best_place, canonical_language, fallbacks, template_id
from messaging.mail_templates import (
    DEFAULT_ORDER_REVIEW_REQUEST,
    SAMPLE_CONTEXT,
    TemplateError,
    check,
    check_part,
    order_review_context,
    render,
)
from messaging.template_language import MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES

SCRIPT = "<script>alert(1)</script>"


def named(name: str) -> MailTemplate:
    return MailTemplate(name, name, name)


@pytest.mark.parametrize(
    ("saved", "language", "expected"),
    [
        ([("store", "de-AT"), ("store", "de"), ("store", None)], "de-AT", ("store", "de-AT")),
        ([("store", "de"), ("store", None), (None, "de-AT")], "de-AT", ("store", "de")),
        ([("store", "en"), ("store", None), (None, "de-AT")], "de-AT", ("store", None)),
        ([("other", "de"), (None, "de-AT"), (None, "de"), (None, None)], "de-AT", (None, "de-AT")),
        ([("other", "de"), (None, "de"), (None, None)], "de-AT", (None, "de")),
        ([(None, "en"), (None, None)], "de-AT", (None, None)),
        ([("store", "de-AT"), (None, "en")], "de", None),
        ([("store", "zh-Hant")], "zh_hant_tw", ("store", "zh-Hant")),
        ([("store", "de-AT")], "DE_at", ("store", "de-AT")),
        ([("store", "de"), ("store", None)], None, ("store", None)),
        ([("store", "de")], None, None),
        ([], "de", None),
    ],
)
def test_the_order_of_fallbacks(
    saved: list[tuple[str | None, str | None]], language: str | None, expected: tuple[str | None, str | None] | None
) -> None:
    templates = {place: named(str(place)) for place in saved}
    assert best(templates, "store", language) == (named(str(expected)) if expected else None)


def test_without_a_store_only_templates_for_all_count() -> None:
    assert best({("store", None): named("store")}, None, "de") is None
    assert best({(None, None): named("all")}, None, "de") == named("all")


@given(st.text(max_size=20) | st.none(), st.from_regex(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{2,8})?", fullmatch=True))
def test_ids_are_different_for_different_places(store: str | None, language: str) -> None:
    ids = {template_id("T", store, language), template_id("T", store, None), template_id("T", None, None)}
    assert len(ids) == (3 if store else 2)
    assert canonical_language(canonical_language(language)) == canonical_language(language)


def test_the_built_in_template_is_usable() -> None:
    check(DEFAULT_ORDER_REVIEW_REQUEST)
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, SAMPLE_CONTEXT)
    assert mail.subject == "How do you like what you bought at Electronics?"
    assert "- Camera\n" in mail.text
    assert "<li>Camera</li>" in mail.html


def test_data_stay_text() -> None:
    context = order_review_context(
        order_id="1", customer_name=SCRIPT, store_name="A & B\r\nBcc: x@example.com", items=[("p", '"><img src=x>')]
    )
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, context)
    assert mail.subject == "How do you like what you bought at A & B Bcc: x@example.com?"
    assert SCRIPT in mail.text
    assert "<script" not in mail.html
    assert "&lt;script&gt;" in mail.html
    assert "<img" not in mail.html


@given(st.text())
def test_any_name_can_be_rendered(name: str) -> None:
    context = order_review_context(order_id="1", customer_name=name, store_name=name, items=[("p", name)])
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, context)
    assert len(mail.subject.splitlines()) == 1
    harmless = name.replace("<", "").replace(">", "")
    context = order_review_context(order_id="1", customer_name=harmless, store_name=harmless, items=[("p", harmless)])
    if harmless:
        assert mail.html.count("<") == render(DEFAULT_ORDER_REVIEW_REQUEST, context).html.count("<")


def test_what_is_missing_is_empty() -> None:
    text = "[{{ customer.name }}{{ order.number|upper }}{{ items[3].name }}]"
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, text=text)
    data: dict[str, Any] = {"customer": {"name": None}, "items": []}
    assert render(template, data).text == "[]"


@pytest.mark.parametrize(
    "source",
    [
        "{{ items|map(attribute='name')|join(', ') }}",
        "{{ items|join(', ', attribute='name') }} {{ (items|first).productId }} {{ items[0].name }}",
        "{% for item in items if item.name %}{{ loop.index }}. {{ item['name'] }}{{ ',' if not loop.last }}"
        "{% else %}-{% endfor %}",
        "{% if languageCode in ('de', 'de-AT') %}Hallo{% elif items|length > 1 %}Hi{% else %}Hey{% endif %}",
        "{{ customer.name|default('friend', true)|title|truncate(20) }}{# a comment #}{% raw %}{{ }}{% endraw %}",
        "https://shop.example.com/orders/{{ order.id|urlencode }}?n={{ items|length - 1 }}{{ '-' ~ store.id }}",
    ],
)
def test_usable_sources(source: str) -> None:
    for part in ("subject", "text", "html"):
        check_part(part, source)


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("a\nb {{ customer.nam }}", 2, "`nam` is not known"),
        ("{{ total }}", 1, "`total` is not known"),
        ("{{ items|join(', ', attribute='nme') }}", 1, "`nme` is not known"),
        ("a\n\n{% for item in items %}", 3, "end of template"),
        ("{{ customer.name", 1, "end of"),
        ("{{ items }}", 1, "several values"),
        ("{{ customer|upper }}", 1, "several values"),
        ("{% for x in customer.name %}{% endfor %}", 1, "not a list"),
        ("\n{{ items|length + customer.name }}", 2, "TypeError"),
        ("{{ ''.__class__.__mro__ }}", 1, "__class__"),
        ("{{ customer['__class__'] }}", 1, "__class__"),
        ("{{ customer.name|attr('__class__') }}", 1, "No filter"),
        ("{{ self }}{{ config }}", 1, "not known"),
        ("{{ customer.name|safe }}", 1, "No filter"),
        ("{% autoescape false %}{{ customer.name }}{% endautoescape %}", 1, "can't be used"),
        ("{{ range(10) }}", 1, "Call can't be used"),
        ("{{ 'x' * 10**9 }}", 1, "can't be used"),
        ("{{ '%999999999d' % 1 }}", 1, "can't be used"),
        ("{{ 'x'|center(999999999) }}", 1, "No filter"),
        ("{{ 'x'.ljust(999999999) }}", 1, "Call can't be used"),
        ("{% set a = 'x' %}", 1, "can't be used"),
        ("{% macro a() %}{{ a() }}{% endmacro %}", 1, "can't be used"),
        ("{% include 'x' %}", 1, "can't be used"),
        ("{% for a in items %}{% for b in items %}{% endfor %}{% endfor %}", 1, "within a loop"),
        ("{% for a in items recursive %}{% endfor %}", 1, "within a loop"),
        ("{{ items|join('" + "x" * 9_000 + "', 'name')|join('" + "x" * 9_000 + "') }}", 1, "joins more"),
        ("{{ items|map('join', 'x') }}", 1, "`map`"),
        ("{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}", 1, "too deeply"),
        ("{{ " + "9" * 5_000 + " }}", 1, "can't be read"),
        ("{{ customer.name" + "|e" * 150 + " }}", 1, "too deeply"),
        ("{{ order.id }}" * 1_500, 1, "may have"),
        ("{{ order.id }}" * 7_000, 1, "may have"),
        ("{{ 'a'" + "~'a'" * 24_000 + " }}", 1, "may have"),
        ("x" * (MAX_SOURCE_BYTES + 1), 1, "bytes"),
        (" \n{{ customer.name if false }}", 1, "empty"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unusable_sources(source: str, line: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check_part("html", source)
    assert caught.value.line == line
    assert reason in caught.value.reason


def test_output_is_bounded() -> None:
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, html="{% for i in items %}" + "x" * 50_000 + "{% endfor %}")
    check(template)
    many = order_review_context(order_id="1", items=[("p", None)] * 1_000)
    with pytest.raises(TemplateError, match=str(MAX_OUTPUT_BYTES)):
        render(template, many)


@pytest.mark.parametrize(
    ("store", "language", "places"),
    [
        ("s", "de-AT", [("s", "de-AT"), ("s", "de"), ("s", None), (None, "de-AT"), (None, "de"), (None, None)]),
        ("s", None, [("s", None), (None, None)]),
        (None, "zh_hant_tw", [(None, "zh-Hant-TW"), (None, "zh-Hant"), (None, "zh"), (None, None)]),
        (None, "", [(None, None)]),
        ("", None, [(None, None)]),
    ],
)
def test_where_a_template_is_looked_for(store: str | None, language: str | None, places: list[Any]) -> None:
    assert list(fallbacks(store, language)) == places
    for place in places:
        assert best_place({place: named("it")}, store, language) == (place, named("it"))
    assert best_place({("other", None): named("it")}, store, language) is None


@pytest.mark.parametrize(
    ("code", "canonical"),
    [
        (None, None),
        ("", None),
        ("DE", "de"),
        ("DE_at", "de-AT"),
        ("ZH-hANT-tw", "zh-Hant-TW"),
        ("De-1996X", "de-1996x"),
    ],
)
def test_language_codes(code: str | None, canonical: str | None) -> None:
    assert canonical_language(code) == canonical


def test_an_id_is_the_address_of_a_template() -> None:
    assert template_id("T", None, None) == "T"
    assert template_id("T", "a&b", "DE_at") == "T?storeId=a%26b&languageCode=de-AT"
    assert template_id("T", None, "de") == "T?languageCode=de"
