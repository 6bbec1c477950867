"""Detect the languages of texts, off the event loop."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from consumers.languages_model import LanguageModel

_LONGEST_SAMPLE: Final = 200
"""Maximum number of characters that are looked at: enough to detect a language."""

# One thread, so that the model is loaded once, and detection uses at most one core.
_THREAD: Final = ThreadPoolExecutor(1, "languages")


async def detect_languages(texts: Sequence[str | None]) -> list[str | None]:
    """The language of each text as an ISO 639 code; None if there is no text, or if it gives no clue."""
    samples = list({text[:_LONGEST_SAMPLE] for text in texts if text})
    if not samples:
        return [None] * len(texts)
    found = await asyncio.get_running_loop().run_in_executor(_THREAD, _detect, samples)
    languages = dict(zip(samples, found, strict=True))
    return [languages[text[:_LONGEST_SAMPLE]] if text else None for text in texts]


def _detect(texts: Sequence[str]) -> list[str | None]:
    return _model().languages(texts)


@cache
def _model() -> "LanguageModel":
    from consumers.languages_model import LanguageModel  # with the first text: only workers need the model and numpy

    return LanguageModel()
