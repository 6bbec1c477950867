import pytest

from domain.returns_statuses import DEFAULT_STATUSES, status_named, usable_statuses


@pytest.mark.parametrize(
    ("names", "statuses"),
    [
        (DEFAULT_STATUSES, DEFAULT_STATUSES),
        (["canceled", " NEW ", " In transit "], ("Canceled", "New", "In transit")),
        (["New", "Canceled", "approved"], ("New", "Canceled", "Approved")),
    ],
)
def test_usable_statuses(names: list[str], statuses: tuple[str, ...]) -> None:
    assert usable_statuses(names) == statuses


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "New and Canceled must be included"),
        (["New"], "Canceled must be included"),
        (["Canceled", "Newer"], "New must be included"),
        (["New", "Canceled", "lost", "LOST "], "A status is given twice; letter case is ignored"),
        (["New", "new", "Canceled"], "A status is given twice; letter case is ignored"),
        (["New", "Canceled", " "], "A status must not be empty"),
        (["New", "Canceled", "\u200b"], "A status must not be empty"),
    ],
)
def test_unusable_statuses_are_refused(names: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        usable_statuses(names)


def test_status_is_found_in_any_letter_case() -> None:
    assert status_named(" in TRANSIT", ["New", "In transit"]) == "In transit"
    assert status_named("transit", ["New", "In transit"]) is None
