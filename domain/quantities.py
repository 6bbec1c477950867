"""Numbers of things in English sentences."""

from collections.abc import Sequence


def quantity(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 review", "2,000 reviews". `many` is the plural, unless it is `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` names, and the number of the others: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
