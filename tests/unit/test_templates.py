import asyncio
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.templates import MailTemplate, TemplateScope, by_preference, canonical_language, fallbacks, template_id
from messaging.templates.language import FILTERS, MAX_SOURCE_BYTES, TAGS
from messaging.templates.order_review_request import (
    DEFAULT_ORDER_REVIEW_REQUEST,
    LONGEST_NAME,
    SAMPLE_CONTEXT,
    order_review_context,
)
from messaging.templates.rendering import PARTS, Part, TemplateError, check, check_part, in_template_thread, render
from messaging.templates.work import MAX_OUTPUT_BYTES
from scheduler.mails import LINKS_LENGTH
from tests.support.hostile_templates import ENDS, HOSTILE

SCRIPT = "<script>alert(1)</script>"


def named_template(name: str) -> MailTemplate:
    return MailTemplate(name, name, name)


def best(
    templates: Mapping[TemplateScope, MailTemplate], store: str | None, language: str | None
) -> tuple[TemplateScope, MailTemplate] | None:
    return next(by_preference(templates, store, language), None)


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
def test_order_of_fallbacks(
    saved: list[tuple[str | None, str | None]], language: str | None, expected: tuple[str | None, str | None] | None
) -> None:
    templates = {scope: named_template(str(scope)) for scope in saved}
    assert best(templates, "store", language) == ((expected, named_template(str(expected))) if expected else None)


def test_only_shared_templates_apply_without_a_store() -> None:
    assert best({("store", None): named_template("store")}, None, "de") is None
    assert best({(None, None): named_template("all")}, None, "de") == ((None, None), named_template("all"))


@given(st.text(max_size=20) | st.none(), st.from_regex(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{2,8})?", fullmatch=True))
def test_ids_differ_by_scope(store: str | None, language: str) -> None:
    ids = {template_id("T", store, language), template_id("T", store, None), template_id("T", None, None)}
    assert len(ids) == (3 if store else 2)
    assert canonical_language(canonical_language(language)) == canonical_language(language)


def test_built_in_template_is_usable() -> None:
    check(DEFAULT_ORDER_REVIEW_REQUEST)
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, SAMPLE_CONTEXT)
    assert mail.subject == "How do you like what you bought at Electronics?"
    assert "- Camera: https://shop.example/review?token=WyJGbGFzaGxp\n" in mail.text
    assert '<li><a href="https://shop.example/review?token=WyJGbGFzaGxp">Camera</a></li>' in mail.html


def test_data_is_escaped() -> None:
    context = order_review_context(
        order_id="1",
        customer_name=SCRIPT,
        store_name="A & B\r\nBcc: x@example.com",
        items=[("p", '"><img src=x>', '"><img src=x>')],
    )
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, context)
    assert mail.subject == "How do you like what you bought at A & B Bcc: x@example.com?"
    assert SCRIPT in mail.text
    assert "<script" not in mail.html
    assert "&lt;script&gt;" in mail.html
    assert "<img" not in mail.html


@given(st.text())
def test_any_name_can_be_rendered(name: str) -> None:
    context = order_review_context(order_id="1", customer_name=name, store_name=name, items=[("p", name, None)])
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, context)
    assert len(mail.subject.splitlines()) == 1
    harmless = name.replace("<", "").replace(">", "")
    context = order_review_context(
        order_id="1", customer_name=harmless, store_name=harmless, items=[("p", harmless, None)]
    )
    if harmless:
        assert mail.html.count("<") == render(DEFAULT_ORDER_REVIEW_REQUEST, context).html.count("<")


def test_missing_values_are_empty() -> None:
    text = "[{{ customer.name }}{{ order.number | upcase }}{{ items[3].name }}]"
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, text=text)
    data: dict[str, Any] = {"customer": {"name": None}, "items": []}
    assert render(template, data).text == "[]"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("limit: 2", "12"),
        ("limit: '2' offset: 1", "23"),
        ("limit: 0", "-"),
        ("limit: '0' offset: 1", "-"),
        ("limit: items.size", "-"),
        ("limit: 1 offset: -5", "-"),
        ("limit: 3 offset: -1", "12"),
        ("offset: -1", "123"),
        ("limit: 0 offset: continue", "-"),
    ],
)
def test_loops_are_limited_as_in_shopify(options: str, expected: str) -> None:
    text = f"{{% for n in (1..3) {options} %}}{{{{ n }}}}{{% else %}}-{{% endfor %}}"
    assert render(replace(DEFAULT_ORDER_REVIEW_REQUEST, text=text), {"items": []}).text == expected


@pytest.mark.parametrize("part", PARTS)
def test_empty_part_is_an_error(part: Part) -> None:
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, **{part: "{% case languageCode %}{% when 'de' %}x{% endcase %}"})
    assert render(template, SAMPLE_CONTEXT | {"languageCode": "de"})
    with pytest.raises(TemplateError, match=f"{part}, line 1: it comes out empty"):
        render(template, SAMPLE_CONTEXT)


@pytest.mark.parametrize("source", ["{{ store.name }}", "{{ languageCode }}"])
def test_values_of_all_mails_suffice(source: str) -> None:
    check_part("subject", source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ items | map: 'name' | join: ', ' }}",
        "{% assign first = items | first %}{{ first.productId }} {{ items.first.name }} {{ items[0].name }}",
        "{% for item in items %}{% if item.name %}{{ forloop.index }}. {{ item['name'] }}{% unless forloop.last %},"
        "{% endunless %}{% endif %}{% else %}-{% endfor %}",
        "{% case languageCode %}{% when 'de', 'de-AT' %}Hallo{% else %}Hey{% endcase %}"
        "{% if items.size > 1 %}Hi{% elsif items.size == 1 and customer.name %}Ho{% endif %}",
        "{{ customer.name | default: 'friend' | capitalize | truncate: 20 }}{% comment %} {{ x }} {% endcomment %}"
        "{% raw %}{{ }}{% endraw %}{% # a comment %}x",
        "https://shop.example.com/orders/{{ order.id | url_encode }}?n={{ items.size | minus: 1 }}"
        "{{ '-' | append: store.id }}",
        "{% for star in (1..5) reversed %}{% cycle '#fff', '#eee' %}{{ star }}{% endfor %}",
        "{% for a in items %}{% for b in items %}{{ a.name }}{{ forloop.parentloop.index }}{% endfor %}{% endfor %}",
        "{% capture who %}{{ customer.name }}{% endcapture %}{{ who }}x",
        "<style>@media print{ #a{color:red}}</style>",
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
        ("{{ order.id }}{% if false %}\n{{ total }}{% endif %}", 2, "`total` is not known"),
        ("{% for item in items %}{{ item.nme }}{% endfor %}", 1, "`nme` is not known"),
        ("a\n\n{% for item in items %}", 3, "expected tag endfor"),
        ("{{ customer.name", 1, "not closed"),
        ("a\n{% raw %}b", 2, "not closed"),
        ("{{ items }}", 1, "several values"),
        ("{{ customer | upcase }}", 1, "several values"),
        ("{% for x in customer.name %}{% endfor %}", 1, "not a list"),
        ("\n{{ items.size | plus }}", 2, "plus"),
        ("{{ ''.__class__.__mro__ }}", 1, "expected end of expression"),
        ("{{ customer.__class__ }}", 1, "__class__"),
        ("{{ customer['__class__'] }}", 1, "__class__"),
        ("{{ customer.name | attr: '__class__' }}", 1, "no filter `attr`"),
        ("{{ now }}{{ partial }}", 1, "not known"),
        ("{{ customer.name | safe }}", 1, "no filter `safe`"),
        ("{{ customer.name | escape: environment: customer }}", 1, "environment"),
        ("{{ 'x' | replace: 'x', 'y', context: customer }}", 1, "context"),
        ("{% for i in (1..1001) %}{% endfor %}", 1, "a range may have at most 1000 numbers"),
        ("{% for i in (1..items.size) %}{% endfor %}", 1, "needs two numbers"),
        ("\n{% for item in items limit: -1 %}x{% endfor %}", 2, "must not be negative"),
        ("{% for item in items limit: '-1' %}x{% endfor %}", 1, "must not be negative"),
        ("{% for item in items limit: 'x' %}x{% endfor %}", 1, "`limit` needs a whole number"),
        ("{% if customer.name != blank %}x{% endif %}", 1, "are nil"),
        ("{{ 'x' | times: 99999999999999999 }}", 1, "too large"),
        ("{% include 'x' %}", 1, "unexpected tag"),
        ("{% render 'x' %}", 1, "unexpected tag"),
        ("{% liquid echo 'x' %}", 1, "unexpected tag"),
        ("{% if order.id %}x{% else if order.number %}y{% endif %}", 1, "did you mean 'elsif'"),
        ("{% %}", 1, "needs a name"),
        ("{{ " + "(" * 500 + "1" + ")" * 400 + " }}", 1, "too deeply"),
        ("{{ " + "9" * 5_000 + " }}", 1, "not closed within"),
        ("{% if order.id %}" * 20 + "x" + "{% endif %}" * 20, 1, "nesting limit"),
        ("{{ order.id }}" * 1_500, 1, "may have"),
        ("{{ order.id }}" * 7_000, 1, "may have"),
        ("x" * (MAX_SOURCE_BYTES + 1), 1, "bytes"),
        (" \n{% if false %}{{ customer.name }}{% endif %}", 1, "empty"),
        ("{{ customer.name }} {{ store.email }}", 1, "empty if only the order"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unusable_sources(source: str, line: int, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check_part("html", source)
    assert reason in caught.value.reason
    assert caught.value.line == line


@pytest.mark.parametrize(
    "source",
    [
        "{{ items|join(', ', attribute='name') }}",
        "{% set a = 'x' %}",
        "{% macro a() %}{{ a() }}{% endmacro %}",
        "{% for item in items %}{{ loop.index }}{% endfor %}",
        "{{ customer.name|upper }}",
        "{{ customer.name|title }}",
        "{{ customer.name if customer.name }}",
        "{{ 'a' ~ order.id }}",
        "{% if a %}{% elif b %}{% endif %}",
        "{% if items|length > 1 %}x{% endif %}",
        "{% autoescape false %}{{ customer.name }}{% endautoescape %}",
        "a {# a comment #}",
        "{{ range(10) }}",
    ],
)
def test_jinja_syntax_is_an_error(source: str) -> None:
    with pytest.raises(TemplateError):
        check_part("text", source)


def test_output_is_bounded() -> None:
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, html="{% for i in items %}" + "x" * 50_000 + "{% endfor %}")
    check(template)
    many = order_review_context(order_id="1", items=[("p", None, None)] * 1_000)
    with pytest.raises(TemplateError, match=str(MAX_OUTPUT_BYTES)):
        render(template, many)


@pytest.mark.parametrize(
    ("store", "language", "scopes"),
    [
        ("s", "de-AT", [("s", "de-AT"), ("s", "de"), ("s", None), (None, "de-AT"), (None, "de"), (None, None)]),
        ("s", None, [("s", None), (None, None)]),
        (None, "zh_hant_tw", [(None, "zh-Hant-TW"), (None, "zh-Hant"), (None, "zh"), (None, None)]),
        (None, "", [(None, None)]),
        ("", None, [(None, None)]),
    ],
)
def test_scopes_in_which_a_template_is_looked_up(store: str | None, language: str | None, scopes: list[Any]) -> None:
    assert list(fallbacks(store, language)) == scopes
    for scope in scopes:
        assert best({scope: named_template("it")}, store, language) == (scope, named_template("it"))
    assert best({("other", None): named_template("it")}, store, language) is None


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


def test_template_id_is_its_path_and_query() -> None:
    assert template_id("T", None, None) == "T"
    assert template_id("T", "a&b", "DE_at") == "T?storeId=a%26b&languageCode=de-AT"
    assert template_id("T", None, "de") == "T?languageCode=de"
    # 0.1.0 stored such ids.
    assert template_id("T", None, "ar-eg-u-nu-latn") == "T?languageCode=ar-EG-u-NU-Latn"


LARGEST = order_review_context(
    order_id="o" * 128,
    customer_name="ö& " * 400,
    store_name="<b>'" * 400,
    items=[("p" * 128, "&'\" ö😀" * 200, "x" * (LINKS_LENGTH // 100))] * 100,
)


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("part", ["text", "html"])
def test_hostile_templates_are_bounded_in_time_and_output(name: str, part: Literal["text", "html"]) -> None:
    """Hangs or runs out of memory if a bound doesn't hold."""
    template = replace(DEFAULT_ORDER_REVIEW_REQUEST, **{part: HOSTILE[name]})
    if end := ENDS[name]:
        with pytest.raises(TemplateError, match=re.escape(end)):
            render(template, LARGEST)
    else:
        assert len(getattr(render(template, LARGEST), part).encode()) <= MAX_OUTPUT_BYTES


def test_built_in_template_can_render_any_order() -> None:
    mail = render(DEFAULT_ORDER_REVIEW_REQUEST, LARGEST)
    assert mail.text.count("\n- ") == 100
    assert f"{('&' + chr(39) + chr(34) + ' ö😀') * 200}"[: LONGEST_NAME - 1] + "…" in mail.text


def test_ordinary_template_with_all_items_stays_within_the_bounds() -> None:
    row = (
        '<tr style=\'background: {% cycle "#fff", "#eee" %}\'><td>{{ forloop.index }}</td><td>{{ item.name | escape }}'
        "</td><td><a href='https://shop.example/p/{{ item.productId | url_encode }}?o={{ order.id }}'>"
        "{% if languageCode == 'de' %}Bewerten{% else %}Review{% endif %}</a></td></tr>\n"
    )
    html = "<table>{% for item in items %}" + row + "{% endfor %}</table>"
    mail = render(replace(DEFAULT_ORDER_REVIEW_REQUEST, html=html), LARGEST)
    assert mail.html.count("<tr") == 100


@pytest.mark.long
@pytest.mark.parametrize("name", FILTERS)
def test_filters_keep_data_escaped(name: str) -> None:
    """Each filter is applied to data, with data as arguments, and before another filter."""
    context = order_review_context(
        order_id="1",
        customer_name=SCRIPT,
        store_name=f"{SCRIPT}\n{SCRIPT}",
        items=[("p", SCRIPT, None), ("q", SCRIPT, SCRIPT)],
    )
    written = []
    for value in ("customer.name", "store.name", "items", "'<b>'", "captured"):
        for arguments in ("", ": store.name", ": 'name'", ": '<', store.name", ": 2", ": 'script', '<b>'"):
            for after in ("", " | append: customer.name", " | join: store.name", " | escape", " | newline_to_br"):
                start = "{% capture captured %}{{ customer.name }}{% endcapture %}"
                html = f"{start}{{{{ {value} | {name}{arguments}{after} }}}}"
                try:
                    written.append(render(replace(DEFAULT_ORDER_REVIEW_REQUEST, html=html), context).html)
                except TemplateError:
                    continue
    assert all("<script" not in html.lower() for html in written)
    assert written or name in ("concat", "where")


async def test_template_work_leaves_the_event_loop_free() -> None:
    """Blocks, and so fails, if the work is done on the event loop."""
    answered = threading.Event()
    waiting = asyncio.ensure_future(in_template_thread(answered.wait, 30))
    await asyncio.sleep(0)
    answered.set()
    assert await waiting


@pytest.mark.long
def test_templates_cannot_load_others_or_run_code() -> None:
    assert {"include", "render", "liquid", "echo", "tablerow", "extends", "import"}.isdisjoint(TAGS)
    assert {"safe", "date", "uniq", "strip_html", "url_decode", "base64_decode", "escape_once"}.isdisjoint(FILTERS)
