"""CPU time that hostile mail templates take: for the check when they are saved, and for rendering one mail.

`python -m benchmarks.templates` prints milliseconds, the slowest templates first: of the slowest of six renderings,
the slower of two checks, and the fastest of three repeated renderings. The mail has 100 items with names of the maximum
length.
"""

import time
from collections.abc import Callable
from typing import Final

from messaging.templates.language import TemplateLanguage
from messaging.templates.order_review_request import SAMPLE_CONTEXT, order_review_context
from messaging.templates.rendering import TemplateError, check_part
from messaging.templates.tokens import SourceError
from tests.support.hostile_templates import HOSTILE

LARGEST: Final = order_review_context(
    order_id="o" * 128,
    customer_id="c" * 128,
    customer_name="é &" * 100,
    store_id="s" * 128,
    store_name="'<ü>" * 100,
    store_email="shop@example.com",
    language_code="de-AT",
    items=[
        (f"product-{number}", f"{number} {'ö& ' * 100}", f"https://shop.example/?token={'x' * 300}")
        for number in range(100)
    ],
)


def measure(work: Callable[[], object]) -> tuple[float, str]:
    """Call a function. Returns its CPU time in milliseconds, and `ok` or the reason of its error."""
    begin = time.thread_time()
    try:
        work()
        outcome = "ok"
    except (TemplateError, SourceError) as error:
        outcome = error.reason
    return (time.thread_time() - begin) * 1_000, outcome


def main() -> None:
    """Measure all templates, and print a table."""
    rows = []
    for name, source in HOSTILE.items():
        for html in (False, True):
            saved = max(measure(lambda: check_part("html" if html else "text", source)) for _ in range(2))  # noqa: B023
            times = []
            for _ in range(3):
                language = TemplateLanguage(SAMPLE_CONTEXT)
                times.append(measure(lambda: language.render(source, LARGEST, html=html)))  # noqa: B023
                times.append(measure(lambda: language.render(source, LARGEST, html=html)))  # noqa: B023
            rows.append((max(times)[0], saved[0], min(times[1::2])[0], name, html, times[-1][1]))
    print(f"{'slowest':>10} {'check':>8} {'repeated':>9}")  # noqa: T201
    for first, saved_ms, following, name, html, outcome in sorted(rows, reverse=True):
        line = f"{first:10.1f} {saved_ms:8.1f} {following:9.1f}  {name} ({'html' if html else 'text'}): {outcome[:70]}"
        print(line)  # noqa: T201


if __name__ == "__main__":
    main()
