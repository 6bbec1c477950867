"""Templates that try to use up time or memory, each with the part of the error that must stop it."""

from typing import Final

_NAMES = "items | map: 'name'"


def _repeat(statement: str, times: int) -> str:
    return statement * times


def _loops(depth: int, body: str, over: str = "items") -> str:
    opened = "".join(f"{{% for v{level} in {over} %}}" for level in range(depth))
    return f"{opened}{body}{'{% endfor %}' * depth}"


_BY_ERROR: Final = {
    "it takes more than 25000 steps": {
        "nested loops": _loops(5, "x"),
        "nested loops that write nothing": _loops(6, "{% if order.id %}{% endif %}", "(1..1000)"),
        "nested loops of literals": _loops(3, "{% if 1 == 2 %}{% endif %}" * 100),
        "empty loops one after the other": _repeat("{% for i in (1..1000) %}{% endfor %}", 490),
        "reversed ranges": _repeat("{% for i in (1..1000) reversed %}{% endfor %}", 490),
        "a huge range joined": "{{ (1..1000) | join: ',' | split: ',' | join: ', ' }}" * 200,
        "sorts in a loop": "{% for i in items %}" + "{% assign s = items | sort: 'name' %}" * 280 + "{% endfor %}",
        "natural sorts": _repeat("{% assign s = items | sort_natural: 'name' %}", 700),
        "sorts in a chain": _repeat("{% assign s = items" + " | sort: 'name'" * 60 + " %}", 31),
        "doubling by append": "{% assign a = 'xxxxxxxxxx' %}" + "{% assign a = a | append: a %}" * 500,
        "doubling by concat": "{% assign a = items %}" + "{% assign a = a | concat: a %}" * 500,
        "growth by replace": (
            "{% assign a = 'xxxxxxxxxx' %}" + "{% assign a = a | replace: 'x', 'xxxxxxxxxx' %}" * 100
        ),
        "growth by replacing nothing": "{% assign a = 'x' %}" + "{% assign a = a | replace: '', a %}" * 100,
        "growth by join": "{% assign a = 'xx' %}" + "{% assign a = a | split: '' | join: 'xxxxxxxxxxxxxxxx' %}" * 100,
        "append in a loop": _loops(3, "{% assign a = a | append: v2.name %}"),
        "growth by escape": "{% assign a = store.name %}" + "{% assign a = a | escape | append: a %}" * 200,
        "growth by url_encode": "{% assign a = store.name %}" + "{% assign a = a | url_encode | append: a %}" * 200,
        "filters in chains": _repeat("{{ store.name" + " | upcase | downcase" * 45 + " }}", 31),
        "truncatewords in a loop": _loops(2, "{{ v0.name | truncatewords: 5 | strip_newlines }}"),
        "split and sort in a loop": _loops(2, "{{ v0.name | split: '' | sort | join: '' }}"),
        "map and where in loops": _loops(2, "{% assign w = items | where: 'name', v0.name | map: 'name' %}"),
        "contains in loops": (
            "{% capture a %}" + "{{ store.name }}" * 100 + "{% endcapture %}"
            "{% capture b %}"
            + "{{ store.name }}" * 50
            + "!{% endcapture %}"
            + _loops(2, "{% if a contains b %}x{% endif %}")
        ),
        "comparisons of long texts": (
            "{% capture a %}" + "{{ store.name }}" * 200 + "{% endcapture %}"
            "{% capture b %}"
            + "{{ store.name }}" * 200
            + "{% endcapture %}"
            + _loops(2, "{% if a == b %}{% endif %}" * 20)
        ),
        "lists compared": _loops(2, "{% if items contains v0 %}{% endif %}{% if items == items %}{% endif %}"),
        "cycles of long names": _loops(2, "{% cycle " + ", ".join(["store.name"] * 70) + " %}"),
        "cases in cases": "{% case 1 %}{% when 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 %}" * 9 + "x" + "{% endcase %}" * 9,
        "many variables": "".join(f"{{% assign a{n} = items %}}" for n in range(990)),
        "filters of the whole order": (
            _repeat("{% assign x = " + _NAMES + " | join: ',' | upcase | split: ',' %}", 400)
        ),
    },
    "it writes more than 200000 bytes": {
        "loops one after the other": _repeat("{% for i in items %}{{ i.name }}{% endfor %}", 300),
        "doubling by capture": "{% assign a = 'x' %}" + "{% capture a %}{{ a }}{{ a }}{% endcapture %}" * 200,
        "url_encode in a loop": _loops(2, "{{ v0.name | url_encode }}"),
        "cycles": _loops(2, "{% cycle " + ", ".join(["items"] * 100) + " %}"),
        "long paths": _loops(2, "{{ forloop" + ".parentloop" * 80 + " | size }}" * 80),
        "long output": "{% for i in items %}" + "x" * 90_000 + "{% endfor %}",
    },
    "a range may have at most 1000 numbers": {
        "a huge range": "{% for i in (1..100000000) reversed %}{% endfor %}",
    },
    "a range needs two numbers": {
        "a huge range by variables": "{% assign n = 99999999 %}{% for i in (1..n) reversed %}{% endfor %}",
    },
    "a number is too large": {
        "numbers that double": "{% assign n = 9 %}" + "{% assign n = n | times: n %}" * 400,
        "long numbers": "{{ " + "9" * 950 + " | times: '" + "9" * 20 + "' }}",
    },
    "": {
        "case with equal values": "{% case 1 %}{% when " + ", ".join("1" * 300) + " %}x{% endcase %}",
    },
    "block nesting limit reached": {
        "deep blocks": "{% if order.id %}" * 400 + "x" + "{% endif %}" * 400,
    },
    "a statement may have at most 20 brackets": {
        "deep brackets": "{{ " + "items[" * 100 + "0" + "]" * 100 + " }}",
        "brackets of ranges": _repeat("{{ " + "(" * 990 + " }}", 90),
        "names in brackets": _repeat("{{ " + "['" * 490 + " }}", 90),
    },
    "it comes out empty": {
        "long conditions": _repeat("{% if order.id" + " and order.id" * 70 + " %}{% endif %}", 29),
    },
    "1000 statements, with 30000 characters in all": {
        "many statements": "{{ order.id }}" * 7_000,
    },
    "is not closed within 1000 characters": {
        "spaces that are not closed": "{{" + " " * 99_000,
    },
    "expected a primitive expression": {
        "spaces that are closed": ("{{" + " " * 950 + "}}") * 100,
    },
    "missing expression": {
        "spaces in a tag": ("{%" + " " * 900 + "if" + " " * 40 + "%}") * 100,
    },
    "is not closed by `end": {
        "raw that is not closed": "{% raw %}" * 11_000,
        "comments that are not closed": "{% comment %}" * 7_000,
        "raw with spaces": "{% raw %}" + ("{%" + " " * 90) * 1_000,
    },
    "unexpected tag 'doc'": {
        "doc that is not closed": "{% doc %}" * 990,
    },
    'unexpected "\'"': {
        "quotes that are not closed": _repeat("{{ " + " 'a\" " * 190 + " }}", 31),
    },
    "expected end of expression, found '.'": {
        "dots and digits": _repeat("{{ " + "1." * 490 + " }}", 30),
    },
}
"""By a part of the error message: each template must be stopped by the limit it attacks, not by an earlier one.
Those under "" are rendered."""

HOSTILE: Final = {name: source for sources in _BY_ERROR.values() for name, source in sources.items()}
ENDS: Final = {name: end for end, sources in _BY_ERROR.items() for name in sources}
