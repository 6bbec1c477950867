"""Reviews of the demo shop, generated from their numbers and the same everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from domain.reviews import ReviewStatus
from plaudit.tools.demo_shop.texts import Rejected, Texts, chosen, texts
from storefront.demo_products import PRODUCTS, Product

_DAYS: Final = 730
_NEW_WITHIN_DAYS: Final = 4
_STARS: Final = {"camera": (8, 5, 9, 22, 56), "boot": (10, 6, 10, 25, 49), "teapot": (5, 3, 6, 18, 68)}
"""Percentages of reviews with one to five stars: most are happy, and most of the others angry."""

_SENTENCES: Final = (6, 24, 32, 24, 14)
"""Percentages of reviews with none to four statements about the product."""

_NEW_EACH: Final = 24
_REJECTED_EACH: Final = 31


@dataclass(frozen=True, slots=True)
class DemoReview:
    """A review with its later events. `age` is that on the day when the shop was first filled."""

    id: str
    product: Product
    language: str
    stars: int
    title: str | None
    text: str
    author_id: str | None
    author: str | None
    age: timedelta
    status: ReviewStatus
    reason_code: str | None
    is_bought: bool
    photos: int
    reply: str | None
    helpful: int
    not_helpful: int

    def written(self, day: datetime) -> datetime:
        """The moment when it was written."""
        return day - self.age


def demo_review(number: int) -> DemoReview:
    """The review with this number, counted from 0."""
    chance = Random(f"plaudit-demo-{number}")  # noqa: S311 - everybody gets the same reviews
    # In turn, so that even a few reviews cover all products.
    product = PRODUCTS[number % len(PRODUCTS)]
    known = texts()
    language = chance.choices(list(known), [each.share for each in known.values()])[0]
    status = _status(number)
    rejected = _rejected(number, known[language]) if status is ReviewStatus.REJECTED else None
    stars = 5 if rejected else chance.choices(range(1, 6), _STARS[product.kind])[0]
    is_known = chance.random() < 0.96
    is_approved = status is ReviewStatus.APPROVED
    title, text = (rejected.title, rejected.text) if rejected else _written(known[language], product, stars, chance)
    helpful, not_helpful = _votes(stars, len(text), chance)
    return DemoReview(
        id=f"demo-{number:05}",
        product=product,
        language=language,
        stars=stars,
        title=title,
        text=text,
        author_id=f"demo-customer-{number:05}" if is_known else None,
        author=known[language].name(chance) if is_known else None,
        age=_age(status, chance),
        status=status,
        reason_code=rejected.code if rejected else None,
        is_bought=is_known and not rejected and chance.random() < 0.62,
        photos=chance.choice((1, 1, 2, 3)) if is_approved and stars > 3 and chance.random() < 0.13 else 0,
        reply=_reply(known[language], stars, chance) if is_approved else None,
        helpful=helpful if is_approved else 0,
        not_helpful=not_helpful if is_approved else 0,
    )


def demo_reviews(count: int) -> Sequence[DemoReview]:
    """The first `count` reviews."""
    return [demo_review(number) for number in range(count)]


def _status(number: int) -> ReviewStatus:
    if number % _REJECTED_EACH == _REJECTED_EACH // 2:
        return ReviewStatus.REJECTED
    return ReviewStatus.NEW if number % _NEW_EACH == _NEW_EACH // 4 else ReviewStatus.APPROVED


def _rejected(number: int, own: Texts) -> Rejected:
    found = own.rejected or texts()["en"].rejected
    return found[number // _REJECTED_EACH % len(found)]


def _age(status: ReviewStatus, chance: Random) -> timedelta:
    days = chance.random() * _NEW_WITHIN_DAYS if status is ReviewStatus.NEW else 4 + _DAYS * chance.random() ** 1.3
    return timedelta(minutes=int(days * 24 * 60))


def _written(own: Texts, product: Product, stars: int, chance: Random) -> tuple[str | None, str]:
    """Title and text."""
    mood = "good" if stars > 3 else "mixed" if stars == 3 else "bad"
    title = chance.choice(getattr(own.titles, mood)) if chance.random() < 0.75 else None
    said = own.about(product.kind)
    count = chance.choices(range(5), _SENTENCES)[0]
    aspects = chance.sample(range(5), count)
    # No aspect is both praised and blamed.
    faults = min(count, {5: 0, 4: 1 if count > 2 else 0, 3: (count + 1) // 2, 2: max(1, count - 1), 1: count}[stars])
    praise = [chance.choice(said.good[aspect].split("|")) for aspect in aspects[faults:]]
    blame = [chance.choice(said.bad[aspect].split("|")) for aspect in aspects[:faults]]
    about = [*praise, *blame] if stars > 2 else [*blame, *praise]
    opener = [chosen(own.openers, chance)] if count and chance.random() < 0.35 else []
    endings = {"good": own.pleased, "mixed": own.mixed, "bad": own.annoyed}[mood]
    ending = [chosen(endings, chance)] if not count or chance.random() < 0.4 else []
    return title, own.join([*opener, *about, *ending])


def _reply(own: Texts, stars: int, chance: Random) -> str | None:
    if stars <= 2:
        return chance.choice(own.replies.bad) if chance.random() < 0.65 else None
    return chance.choice(own.replies.good) if chance.random() < 0.07 else None


def _votes(stars: int, length: int, chance: Random) -> tuple[int, int]:
    """Helpful and unhelpful votes: long reviews are read more, and angry ones divide readers."""
    if chance.random() > 0.3 + min(length, 400) / 1_000:
        return 0, 0
    helpful = min(30, int(chance.expovariate(1 / 4)) + 1)
    return helpful, int(chance.expovariate(1 / (2 if stars < 3 else 0.6)))
