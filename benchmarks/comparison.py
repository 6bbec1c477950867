"""Figures that last: ratios of runs that were made side by side."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any, Literal

from benchmarks.progress import tell

Bound = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of ours against another, once for each pair of runs.

    `ratios` are ours divided by theirs, pair by pair, when `unit` is empty; else plain figures of ours in that unit.
    `goal` bounds the median; None: there is no goal, the figure is only reported. `absolute` accompanies them: rates a
    second or milliseconds of this machine on this day.
    """

    name: str
    against: str
    ratios: Sequence[float]
    goal: float | None = None
    bound: Bound = "at least"
    unit: str = ""
    absolute: str = ""

    @property
    def median(self) -> float:
        """The middle one of the ratios."""
        return median(self.ratios)

    @property
    def met(self) -> bool | None:
        """True if the median reaches the goal; None without a goal."""
        if self.goal is None:
            return None
        return self.median >= self.goal if self.bound == "at least" else self.median <= self.goal

    def __str__(self) -> str:
        """One line for whoever watches."""
        what = f"{self.name} / {self.against}" if self.against else self.name
        goal = ""
        if self.goal is not None:
            goal = f", goal {self.bound} {self.goal:g} {'met' if self.met else 'NOT MET'}"
        figures = f"{self.median:,.3g} {self.unit}".rstrip()
        return f"{what}: {figures} ({min(self.ratios):,.3g} to {max(self.ratios):,.3g}){goal}; {self.absolute}"

    def as_json(self) -> dict[str, Any]:
        """The form in `benchmarks/results/latest.json`."""
        return {
            "name": self.name,
            "against": self.against,
            "ratio": {
                "min": round(min(self.ratios), 3),
                "median": round(self.median, 3),
                "max": round(max(self.ratios), 3),
            },
            "goal": self.goal,
            "met": self.met,
            "bound": self.bound,
            "unit": self.unit or "ratio",
            "absolute": self.absolute,
            "runs": len(self.ratios),
        }


def turns(runs: int, names: Iterable[str]) -> Iterator[list[str]]:
    """The order of each of `runs` rounds: every other one goes backwards, so that what changes on the machine meets all
    alike."""
    order = list(names)
    for _ in range(runs):
        yield order
        order = order[::-1]


async def in_turns(runs: int, measures: Mapping[str, Callable[[], Awaitable[float]]]) -> dict[str, list[float]]:
    """The figures of each measure, `runs` of them, taken in turns."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for number, order in enumerate(turns(runs, measures)):
        for name in order:
            figures[name].append(await measures[name]())
        tell_round(number, runs, figures)
    return figures


def tell_round(number: int, runs: int, figures: Mapping[str, Sequence[float]]) -> None:
    """Tell what the round with this number, from 0, came to."""
    tell(f"  {number + 1} of {runs}: " + ", ".join(f"{name} {of[-1]:,.4g}" for name, of in figures.items()))


def paired(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours divided by theirs, pair by pair."""
    return [own / other for own, other in zip(ours, theirs, strict=True)]


def p99(values: Sequence[float]) -> float:
    """The value that 99 of 100 don't exceed; of fewer than 100, the largest."""
    return sorted(values)[ceil(0.99 * len(values)) - 1]


def per_second(values: Sequence[float]) -> str:
    """The middle one of some rates."""
    return f"{median(values):,.0f}/s"
