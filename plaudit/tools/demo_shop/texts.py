"""The fragments that reviews of the demo shop are composed of, in one file for each language."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

LANGUAGES: Final = ("en", "de", "fr", "es", "it", "nl", "pl", "pt", "sv", "ja", "ar")

Fragments = Annotated[list[str], Field(min_length=1)]
Aspects = Annotated[list[str], Field(min_length=5, max_length=5)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Said(_Part):
    """Praise and blame of the same five aspects of a product; "|" separates alternatives."""

    good: Aspects
    bad: Aspects


class Titles(_Part):
    """Titles of reviews with many, three and few stars."""

    good: Fragments
    mixed: Fragments
    bad: Fragments


class Replies(_Part):
    """The shop's answers to praise and to complaints."""

    good: Fragments
    bad: Fragments


class Rejected(_Part):
    """A review that moderators reject, with the reason code."""

    code: str
    title: str | None = None
    text: str


class Texts(_Part):
    """The fragments of a language. `share` is its weight among the reviews, `order` the part of a name that leads."""

    share: int
    order: Literal["given", "family"] = "given"
    sentence_space: str = " "
    given: Fragments
    family: Fragments
    openers: Fragments
    pleased: Fragments
    mixed: Fragments
    annoyed: Fragments
    titles: Titles
    camera: Said
    boot: Said
    teapot: Said
    replies: Replies
    rejected: list[Rejected] = []

    def about(self, kind: str) -> Said:
        """The statements about a kind of product."""
        return {"camera": self.camera, "boot": self.boot, "teapot": self.teapot}[kind]

    def join(self, sentences: Sequence[str]) -> str:
        """A text that consists of these sentences."""
        return self.sentence_space.join(sentences)

    def name(self, chance: Random) -> str:
        """A name as people sign: in full, with an initial, or the given name alone."""
        given, family = chance.choice(self.given), chance.choice(self.family)
        if self.order == "family":
            return chance.choice([f"{family} {given}", f"{family}さん", given])
        initial = next((letter for letter in family if letter.isupper()), None)
        short = f"{given} {initial}." if initial else given
        return chance.choice([f"{given} {family}", short, short, given])


def chosen(fragments: Sequence[str], chance: Random) -> str:
    """One of the fragments, in one of its alternatives."""
    return chance.choice(chance.choice(fragments).split("|"))


@cache
def texts() -> Mapping[str, Texts]:
    """The fragments by language."""
    folder = files("plaudit.tools.demo_shop") / "texts"
    return {tag: Texts.model_validate(tomllib.loads((folder / f"{tag}.toml").read_text("utf-8"))) for tag in LANGUAGES}
