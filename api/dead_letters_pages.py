"""Text of page positions in lists of dead letters."""

import re
from typing import Final

from messaging.dead_letters_replays import place_in
from messaging.kafka.dead_letters import Ends

_TOPIC: Final = re.compile(r"([a-z-]+)((?:~[0-9]{1,10}\.[0-9]{1,19})+)")


def ends_text(ends: Ends) -> str:
    """Ends as text for a URL: `mail-commands~0.17~3.4_order-events~1.2`."""
    topics = sorted({topic for topic, _ in ends})
    return "_".join(
        topic.value + "".join(f"~{number}.{end}" for (each, number), end in sorted(ends.items()) if each is topic)
        for topic in topics
    )


def ends_in(text: str) -> Ends:
    """The ends in a text of `ends_text`. Raises ValueError."""
    ends = {}
    for part in text.split("_"):
        found = _TOPIC.fullmatch(part)
        if found is None:
            raise ValueError("Must be the `next` of a page")
        for end in found[2][1:].split("~"):
            number, _, offset = end.partition(".")
            place = place_in(f"{found[1]}/{number}/{offset}")
            ends[place.topic, place.partition] = place.offset
    return ends
