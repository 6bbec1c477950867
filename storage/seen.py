"""The marks of `domain.delivery.Seen` as a document: {"<partition>": [offset, timestamp]}."""

from collections.abc import Mapping, Sequence

from domain.delivery import Seen


def seen_from(document: Mapping[str, Sequence[int]] | None) -> Seen:
    """The marks in a document; none without one."""
    return Seen({int(partition): (mark[0], mark[1]) for partition, mark in (document or {}).items()})


def seen_document(seen: Seen) -> dict[str, list[int]]:
    """The marks as a document."""
    return {str(partition): list(mark) for partition, mark in seen.marks.items()}
