"""Detect the languages of texts, away from the event loop."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from consumers.languages_model import LanguageModel

_LONGEST: Final = 200
"""So many characters tell a language."""

# One thread, so that the model is loaded once, and detection takes no more than one core.
_THREAD: Final = ThreadPoolExecutor(1, "languages")


async def detect_languages(texts: Sequence[str | None]) -> list[str | None]:
    """The language of each text as an ISO 639 code; None where there is no text, or nothing in it tells."""
    samples = list({text[:_LONGEST] for text in texts if text})
    if not samples:
        return [None] * len(texts)
    found = await asyncio.get_running_loop().run_in_executor(_THREAD, _detect, samples)
    languages = dict(zip(samples, found, strict=True))
    return [languages[text[:_LONGEST]] if text else None for text in texts]


def _detect(texts: Sequence[str]) -> list[str | None]:
    return _model().languages(texts)


@cache
def _model() -> "LanguageModel":
    # With the first text: other processes than workers need neither the model nor numpy.
    model: LanguageModel = import_module("consumers.languages_model").LanguageModel()
    return model
