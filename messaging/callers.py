"""Names of callers, the subjects of tokens and clients of API keys, and ids of stores that tools get."""

from domain.invisible import is_blank
from domain.reviews_facts import BY_RULE, BY_VERDICT
from messaging.schemas import ID_LENGTH


def is_printable_name(text: str) -> bool:
    """True if a text has 1 to ID_LENGTH printable characters, not all of them blank."""
    return not is_blank(text) and len(text) <= ID_LENGTH and text.isprintable()


def fault_of_name(name: str) -> str | None:
    """The fault of a name for a caller, as the rest of a sentence about it; None if the name can be used."""
    if not is_printable_name(name):
        return f"must have 1 to {ID_LENGTH} printable characters"
    if name.startswith((BY_RULE, BY_VERDICT)):
        return f"must not begin with {BY_RULE} or {BY_VERDICT}, as the names of automatic decisions do"
    return None
