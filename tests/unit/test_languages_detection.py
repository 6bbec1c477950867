"""Language detection, compared with the model of py3langid behind it."""

import asyncio
import random

import py3langid
import pytest

from consumers.languages import detect_languages
from consumers.languages_model import LanguageModel

SENTENCES = {
    "en": "Sharp pictures, and the battery lasts all day long.",
    "de": "Die Kamera macht scharfe Bilder, und der Akku hält den ganzen Tag.",
    "fr": "L'appareil photo est très bon, je le recommande vivement.",
    "es": "La cámara es excelente y la batería dura todo el día.",
    "ja": "写真がとてもきれいで、電池も長持ちします。",
    "ru": "Отличная камера, батареи хватает на весь день.",
}


async def test_detects_languages_of_texts() -> None:
    texts = [*SENTENCES.values(), None, *SENTENCES.values(), ""]
    assert await detect_languages(texts) == [*SENTENCES, None, *SENTENCES, None]
    assert await detect_languages([None, ""]) == [None, None]
    assert await detect_languages([]) == []


async def test_only_beginning_of_long_text_counts() -> None:
    assert await detect_languages([SENTENCES["en"] * 4 + SENTENCES["ru"] * 200]) == ["en"]


async def test_event_loop_runs_during_detection() -> None:
    chance = random.Random(7)
    words = " ".join(SENTENCES.values()).split()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await detect_languages([" ".join(chance.choices(words, k=25)) for _ in range(2_000)])
    counting.cancel()
    assert turns > 10


@pytest.mark.long
def test_model_agrees_with_py3langid() -> None:
    chance = random.Random(7)
    words = [*" ".join(SENTENCES.values()).split(), "GREAT", "E\u0301tat", "\ud800", "\x01"]
    texts = [" ".join(chance.choices(words, k=chance.randint(8, 30))) for _ in range(300)]
    texts += [text.upper() for text in texts[:100]]
    assert LanguageModel().languages(texts) == [py3langid.classify(text)[0] for text in texts]


def test_text_without_features_has_no_language() -> None:
    assert LanguageModel().languages(["\0" * 40, SENTENCES["de"], ""]) == [None, "de", None]
