"""Numbers of things in English sentences."""


def quantity(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 review", "2,000 reviews". `many` is the plural, unless it is `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
