"""Detect the languages of texts."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

from domain.delivery import in_parts

if TYPE_CHECKING:
    from consumers.languages_model import LanguageModel

_LONGEST_SAMPLE: Final = 200
"""Maximum number of characters that are looked at: enough to detect a language."""
_AT_ONCE: Final = 100
"""Number of texts after which other tasks get a turn: about two milliseconds. A thread would compete with them for the
interpreter: a worker was 1.2 times as slow."""

# One thread, so that the model is loaded once.
_THREAD: Final = ThreadPoolExecutor(1, "languages")


async def detect_languages(texts: Sequence[str | None]) -> list[str | None]:
    """The language of each text as an ISO 639 code; None if there is no text, or if it gives no clue."""
    samples = list({text[:_LONGEST_SAMPLE] for text in texts if text})
    if not samples:
        return [None] * len(texts)
    # In a thread, because loading takes a second.
    model = await asyncio.get_running_loop().run_in_executor(_THREAD, _model)
    languages = dict[str, str | None]()
    for part in in_parts(samples, _AT_ONCE):
        languages |= zip(part, model.languages(part), strict=True)
        await asyncio.sleep(0)
    return [languages[text[:_LONGEST_SAMPLE]] if text else None for text in texts]


@cache
def _model() -> "LanguageModel":
    from consumers.languages_model import LanguageModel  # with the first text: only workers need the model and numpy

    return LanguageModel()
