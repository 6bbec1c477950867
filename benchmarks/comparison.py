"""Comparisons: ratios of measurements that were made in turns on the same machine."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any, Literal

from benchmarks.progress import print_progress

Bound = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measurement of Plaudit against an alternative, with one figure for each round.

    If `unit` is empty, `ratios` are Plaudit's figures divided by those of the alternative; else they are Plaudit's own
    figures in that unit. `goal` bounds the median; None: no goal. `absolute` is a text with rates per second or times,
    which depend on the machine.
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
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def met(self) -> bool | None:
        """True if the median reaches the goal; None without a goal."""
        if self.goal is None:
            return None
        return self.median >= self.goal if self.bound == "at least" else self.median <= self.goal

    def __str__(self) -> str:
        """One line for the terminal."""
        what = f"{self.name} / {self.against}" if self.against else self.name
        goal = ""
        if self.goal is not None:
            goal = f", goal {self.bound} {self.goal:g} {'met' if self.met else 'NOT MET'}"
        figures = f"{self.median:,.3g} {self.unit}".rstrip()
        return f"{what}: {figures} ({min(self.ratios):,.3g} to {max(self.ratios):,.3g}){goal}; {self.absolute}"

    def as_json(self) -> dict[str, Any]:
        """As in `benchmarks/results/latest.json`."""
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
    """The order of the names in each of `runs` rounds. Every other round is reversed, so that changes of the machine
    affect all alike."""
    order = list(names)
    for _ in range(runs):
        yield order
        order = order[::-1]


async def in_turns(runs: int, measures: Mapping[str, Callable[[], Awaitable[float]]]) -> dict[str, list[float]]:
    """Take each measurement `runs` times, in turns. Returns the figures by name."""
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for number, order in enumerate(turns(runs, measures)):
        for name in order:
            figures[name].append(await measures[name]())
        print_round(number, runs, figures)
    return figures


def print_round(number: int, runs: int, figures: Mapping[str, Sequence[float]]) -> None:
    """Print the figures of the round with this number, from 0."""
    print_progress(
        f"  Round {number + 1} of {runs}: " + ", ".join(f"{name} {of[-1]:,.4g}" for name, of in figures.items())
    )


def paired(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Each figure of ours divided by theirs of the same round."""
    return [own / other for own, other in zip(ours, theirs, strict=True)]


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; of fewer than 100 values, the largest."""
    return sorted(values)[ceil(0.99 * len(values)) - 1]


def per_second(values: Sequence[float]) -> str:
    """The median of rates, as text."""
    return f"{median(values):,.0f}/s"
