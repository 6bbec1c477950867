"""Templates that try to take time or memory, by name; none of them may get far."""

from __future__ import annotations

from typing import Final

_NAMES = "items | map: 'name'"


def _often(statement: str, times: int = 900) -> str:
    return statement * times


def _loops(depth: int, body: str, over: str = "items") -> str:
    opened = "".join(f"{{% for v{level} in {over} %}}" for level in range(depth))
    return f"{opened}{body}{'{% endfor %}' * depth}"


HOSTILE: Final = {
    "nested loops": _loops(5, "x"),
    "nested loops that write nothing": _loops(6, "{% if order.id %}{% endif %}", "(1..1000)"),
    "nested loops of literals": _loops(3, "{% if 1 == 2 %}{% endif %}" * 100),
    "loops one after the other": _often("{% for i in items %}{{ i.name }}{% endfor %}", 300),
    "empty loops one after the other": _often("{% for i in (1..1000) %}{% endfor %}", 490),
    "reversed ranges": _often("{% for i in (1..1000) reversed %}{% endfor %}", 490),
    "a huge range": "{% for i in (1..100000000) reversed %}{% endfor %}",
    "a huge range by variables": "{% assign n = 99999999 %}{% for i in (1..n) reversed %}{% endfor %}",
    "a huge range joined": "{{ (1..1000) | join: ',' | split: ',' | join: ', ' }}" * 200,
    "sorts in a loop": "{% for i in items %}" + "{% assign s = items | sort: 'name' %}" * 280 + "{% endfor %}",
    "natural sorts": _often("{% assign s = items | sort_natural: 'name' %}"),
    "sorts in a chain": _often("{% assign s = items" + " | sort: 'name'" * 60 + " %}", 100),
    "doubling by append": "{% assign a = 'xxxxxxxxxx' %}" + "{% assign a = a | append: a %}" * 500,
    "doubling by capture": "{% assign a = 'x' %}" + "{% capture a %}{{ a }}{{ a }}{% endcapture %}" * 200,
    "doubling by concat": "{% assign a = items %}" + "{% assign a = a | concat: a %}" * 500,
    "growth by replace": "{% assign a = 'xxxxxxxxxx' %}" + "{% assign a = a | replace: 'x', 'xxxxxxxxxx' %}" * 100,
    "growth by replacing nothing": "{% assign a = 'x' %}" + "{% assign a = a | replace: '', a %}" * 100,
    "growth by join": "{% assign a = 'x' %}" + "{% assign a = a | split: '' | join: 'xxxxxxxxxxxxxxxx' %}" * 100,
    "append in a loop": _loops(3, "{% assign a = a | append: v2.name %}"),
    "growth by escape": "{% assign a = store.name %}" + "{% assign a = a | escape | append: a %}" * 200,
    "growth by url_encode": "{% assign a = store.name %}" + "{% assign a = a | url_encode | append: a %}" * 200,
    "numbers that double": "{% assign n = 9 %}" + "{% assign n = n | times: n %}" * 400,
    "long numbers": "{{ " + "9" * 950 + " | times: '" + "9" * 20 + "' }}",
    "filters in chains": _often("{{ store.name" + " | upcase | downcase" * 45 + " }}", 90),
    "url_encode in a loop": _loops(2, "{{ v0.name | url_encode }}"),
    "truncatewords in a loop": _loops(2, "{{ v0.name | truncatewords: 5 | strip_newlines }}"),
    "split and sort in a loop": _loops(2, "{{ v0.name | split: '' | sort | join: '' }}"),
    "map and where in loops": _loops(2, "{% assign w = items | where: 'name', v0.name | map: 'name' %}"),
    "contains in loops": "{% capture a %}" + "{{ store.name }}" * 100 + "{% endcapture %}"
    "{% capture b %}" + "{{ store.name }}" * 50 + "!{% endcapture %}" + _loops(2, "{% if a contains b %}x{% endif %}"),
    "comparisons of long texts": "{% capture a %}" + "{{ store.name }}" * 200 + "{% endcapture %}"
    "{% capture b %}" + "{{ store.name }}" * 200 + "{% endcapture %}" + _loops(2, "{% if a == b %}{% endif %}" * 20),
    "lists compared": _loops(2, "{% if items contains v0 %}{% endif %}{% if items == items %}{% endif %}"),
    "cycles": _loops(2, "{% cycle " + ", ".join(["items"] * 100) + " %}"),
    "cycles of long names": _loops(2, "{% cycle " + ", ".join(["store.name"] * 70) + " %}"),
    "case with equal values": "{% case 1 %}{% when " + ", ".join("1" * 300) + " %}x{% endcase %}",
    "cases in cases": "{% case 1 %}{% when 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 %}" * 9 + "x" + "{% endcase %}" * 9,
    "deep blocks": "{% if order.id %}" * 400 + "x" + "{% endif %}" * 400,
    "deep brackets": "{{ " + "items[" * 150 + "0" + "]" * 150 + " }}",
    "brackets of ranges": _often("{{ " + "(" * 990 + " }}", 90),
    "long conditions": _often("{% if order.id" + " and order.id" * 70 + " %}{% endif %}", 90),
    "long paths": _loops(2, "{{ forloop" + ".parentloop" * 80 + " | size }}" * 80),
    "long output": "{% for i in items %}" + "x" * 90_000 + "{% endfor %}",
    "many variables": "".join(f"{{% assign a{n} = items %}}" for n in range(990)),
    "many statements": "{{ order.id }}" * 7_000,
    "spaces that are not closed": "{{" + " " * 99_000,
    "spaces that are closed": ("{{" + " " * 950 + "}}") * 100,
    "spaces in a tag": ("{%" + " " * 900 + "if" + " " * 40 + "%}") * 100,
    "raw that is not closed": "{% raw %}" * 11_000,
    "comments that are not closed": "{% comment %}" * 7_000,
    "doc that is not closed": "{% doc %}" * 11_000,
    "raw with spaces": "{% raw %}" + ("{%" + " " * 90) * 1_000,
    "quotes that are not closed": _often("{{ " + " 'a\" " * 190 + " }}", 90),
    "names in brackets": _often("{{ " + "['" * 490 + " }}", 90),
    "dots and digits": _often("{{ " + "1." * 490 + " }}", 90),
    "filters of the whole order": _often("{% assign x = " + _NAMES + " | join: ',' | upcase | split: ',' %}"),
}
