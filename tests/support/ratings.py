"""Rating values by the contract's formulas, in decimal arithmetic directly from the ratings."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext

Z = Decimal("1.64485")


def average(ratings: Sequence[float]) -> float:
    """The mean, rounded half up to two decimals."""
    with localcontext() as context:
        context.prec = 60
        return _rounded(sum(map(_exact, ratings)) / Decimal(len(ratings)))


def wilson(ratings: Sequence[float]) -> float:
    """Lower bound of the Wilson interval with z = 1.64485 on p = sum / (5 · count), times 5."""
    with localcontext() as context:
        context.prec = 60
        n = Decimal(len(ratings))
        p = sum(map(_exact, ratings)) / (5 * n)
        lower = (p + Z**2 / (2 * n) - Z * ((p * (1 - p) + Z**2 / (4 * n)) / n).sqrt()) / (1 + Z**2 / n)
        return _rounded(5 * lower)


def histogram(ratings: Iterable[float]) -> dict[str, int]:
    """Number of ratings by stars, each rounded half up."""
    stars = Counter(str(int(_exact(rating).to_integral_value(ROUND_HALF_UP))) for rating in ratings)
    return {number: stars[number] for number in ("1", "2", "3", "4", "5")}


def _exact(rating: float) -> Decimal:
    return Decimal(repr(rating))


def _rounded(value: Decimal) -> float:
    return float(value.quantize(Decimal("0.01"), ROUND_HALF_UP))
