"""The navigation: the screens that a visitor may open, and a mark beside that of the service's health."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.datastructures import State

from api.health_details import Examination
from api.metrics import Gauges
from domain.permissions import Caller, Permission


class Entry(NamedTuple):
    """A link to a screen."""

    path: str
    name: str
    permissions: tuple[Permission, ...]
    is_of_all_stores: bool = False
    """True if callers bound to stores may not open it."""

    waiting: str | None = None
    """Address of the number of items that wait there."""

    also: tuple[str, ...] = ()
    """Other paths of pages that belong to it."""

    def has(self, path: str) -> bool:
        """True if the page with this path belongs to it."""
        return any(path == each or path.startswith(f"{each}/") for each in (self.path, *self.also))

    def is_for(self, caller: Caller) -> bool:
        """True if the caller may open it."""
        return all(map(caller.may, self.permissions)) and not (self.is_of_all_stores and caller.stores is not None)


_HEALTH: Final = "/console/health"
_GROUPS: Final[tuple[tuple[Entry, ...], ...]] = (
    (
        Entry(
            "/console/queue",
            "Queue",
            (Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS),
            waiting="/console/queue/waiting",
            also=("/console/choose-store/queue",),
        ),
        Entry("/console/reviews", "Reviews", (Permission.READ_REVIEWS,), also=("/console/choose-store/reviews",)),
        Entry("/console/objects", "Objects", (Permission.READ_RATINGS,)),
        Entry("/console/returns", "Returns", (Permission.READ_RETURNS,), waiting="/console/returns/waiting"),
        Entry("/console/orders", "Orders", (Permission.READ_RETURNS,)),
        Entry(
            "/console/reminders", "Reminders", (Permission.READ_SETTINGS,), also=("/console/choose-store/reminders",)
        ),
    ),
    (
        Entry("/console/stores", "Stores and rules", (Permission.READ_SETTINGS,), also=("/console/settings",)),
        Entry("/console/templates", "Templates", (Permission.READ_TEMPLATES,)),
        Entry("/console/entity-types", "Object types", (Permission.READ_REVIEWS,)),
        Entry("/console/audit", "Audit", (Permission.READ_AUDIT,)),
        Entry("/console/keys", "Keys", (Permission.READ_KEYS,), is_of_all_stores=True),
        Entry("/console/dead-letters", "Dead letters", (Permission.READ_DEAD_LETTERS,), is_of_all_stores=True),
        Entry(_HEALTH, "Health", (Permission.READ_METRICS,), is_of_all_stores=True),
    ),
)


class Shown(NamedTuple):
    """An entry as a page shows it; `is_current` if the page belongs to it. `is_well`: the mark of the service's health,
    None without one."""

    path: str
    name: str
    is_current: bool
    waiting: str | None
    is_well: bool | None


def visible(caller: Caller, path: str, *, is_well: bool | None = None) -> Sequence[Sequence[Shown]]:
    """The entries that this caller may open, by group, for the page with this path. `is_well`: the result of
    `is_service_well`."""
    groups = [
        [
            Shown(each.path, each.name, each.has(path), each.waiting, is_well if each.path == _HEALTH else None)
            for each in group
            if each.is_for(caller)
        ]
        for group in _GROUPS
    ]
    return [group for group in groups if group]


def is_service_well(state: State) -> bool | None:
    """True if MongoDB and Kafka answered when this process last looked, all consumers progressed, and no check failed
    that the page of the health made lately; None if it hasn't looked yet. It looks every few seconds in any case: pages
    cause no query."""
    gauges: Gauges | None = getattr(state, "gauges", None)
    if gauges is None or gauges.asked_at < 0:
        return None
    examination: Examination | None = getattr(state, "examination", None)
    has_failed = examination is not None and examination.has_failed_lately()
    has_answered = gauges.backlog is not None and gauges.lag is not None
    return has_answered and not has_failed and not gauges.standstill.describe()


def start_page(caller: Caller) -> str | None:
    """The path of the first screen that the caller may open; None if there is none."""
    return next((entry.path for group in _GROUPS for entry in group if entry.is_for(caller)), None)
