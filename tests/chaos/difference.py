"""Differences between the service and the model, and their description."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tests.chaos.clients import Ledger

Kind = Literal["lost", "duplicated", "wrong", "relayed"]
"""Kind of a difference; "relayed" means that the topic of reviews differs from the database."""


class Difference(NamedTuple):
    """A mismatch between the service and the model."""

    kind: Kind
    id: str
    what: str


def describe(differences: Sequence[Difference], ledger: Ledger) -> str:
    """The first difference with its object's history, then the number of each sort with an example, then the next
    ones."""
    if not differences:
        return "no differences"
    sorts: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        sorts[f"{difference.kind}, {' '.join(difference.what.split()[:3])}"].append(difference)
    first = differences[0]
    history = "\n".join(f"    {line}" for line in ledger.histories.get(first.id, ["no history"]))
    counts = "\n".join(f"  {len(of)} {sort}: {of[-1].id}: {of[-1].what}"[:300] for sort, of in list(sorts.items())[:30])
    others = "\n".join(f"  {d.kind}: {d.id}: {d.what}"[:300] for d in differences[1:10])
    summary = f"{len(differences)} differences; the first, {first.kind}: {first.id}: {first.what}"
    return "\n".join((summary, history, counts, others))
