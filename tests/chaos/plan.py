"""The plan of a run, and its result."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.exports import EXPORTS
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.growth import GROWTHS
from tests.chaos.index_changes import INDEX_CHANGES
from tests.chaos.model import Json
from tests.chaos.upgrades import UPGRADES

KINDS: dict[str, Fault] = {**FAULTS, **INDEX_CHANGES, **UPGRADES, **GROWTHS, **EXPORTS}
"""All faults by name."""
LONG = ("rolling-restart", "settings-changed", *UPGRADES, *GROWTHS, *EXPORTS)
"""Faults that take long, beside which another fault may happen."""


@dataclass(frozen=True)
class Plan:
    """The size of a run.

    It ends after this many faults and acknowledged commands, or after this many seconds.
    """

    seed: int
    faults: int
    commands: int
    seconds: float
    reviewers: int
    importers: int
    buyers: int
    audiences: int
    deciders: int
    processes: Sequence[str]
    batch: int = 60
    """Maximum number of reviews in one message."""
    before: str | None = None
    """Revision or folder of the version that processes start with if they are upgraded."""
    kinds: Sequence[str] = tuple(KINDS)
    between_s: tuple[float, float] = (0.5, 3.0)
    pause_s: float = 0.02
    waits_for_recovery: bool = True

    @property
    def upgrades(self) -> bool:
        """True if processes change their version."""
        return self.faults > 0 and any(kind in UPGRADES for kind in self.kinds)


@dataclass
class Result:
    """The outcome of a run."""

    seed: int
    before: str | None = None
    seconds: float = 0.0
    acknowledged: int = 0
    commands_by_kind: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    skipped: dict[str, str] = field(default_factory=dict)
    differences: Counter[str] = field(default_factory=Counter)
    """Number of differences by kind: "lost", "duplicated", "wrong", "relayed"."""
    recovery: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    """Planned work that the run didn't do."""
    soak: Json = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """True if no difference or failure has been found so far."""
        return not (self.differences or self.failures)

    @property
    def is_good(self) -> bool:
        """True if the run did all planned work and found no difference or failure."""
        return self.is_right and not self.undone

    def document(self) -> Json:
        """The JSON form. `recoverySeconds` is the longest time until commands were applied again, by kind of fault."""
        return {
            "seed": self.seed,
            "before": self.before,
            "seconds": round(self.seconds),
            "acknowledged": self.acknowledged,
            "deeds": self.commands_by_kind,
            "faults": dict(sorted(self.faults.items())),
            **{kind: self.differences[kind] for kind in ("lost", "duplicated", "wrong", "relayed")},
            "unknownOutcomes": self.unknown,
            "skipped": self.skipped,
            "recoverySeconds": {kind: round(seconds, 1) for kind, seconds in sorted(self.recovery.items())},
            "objects": self.counts,
            "soak": self.soak,
            "failures": self.failures,
            "undone": self.undone,
        }
