"""Edits of reviews: who may edit, what changes, and that no older text wins."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.commands import Outcome
from domain.delivery import REMEMBERED_MESSAGES, RecordPosition, Written
from domain.images import ClaimableImages, ImageState, StoredImage
from domain.moderation_rules import ModerationRule, RuleKind, RuleOutcome, Ruling
from domain.permissions import ANYBODY, Caller, Permission
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import Content, Review, ReviewIdentity, ReviewStatus
from domain.reviews_edits import (
    NO_IMAGES,
    Edit,
    Edited,
    EditImages,
    EditRight,
    apply_edit,
    edit_reviews,
    is_same_review,
    message_digest,
    needs_language_detection,
    right_to_edit,
)
from domain.reviews_facts import Facts, ReasonCode, ReviewImage
from domain.reviews_refusals import Refusal
from domain.timestamps import milliseconds

NOW = datetime(2022, 10, 4, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
CAMERA = Entity("Product", "camera")
IDENTITY = ReviewIdentity(CAMERA, "shop", "anna")
CONTENT = Content("Good", 400, "Title", "Anna", "Camera")
REVIEW = Review(
    "r",
    CAMERA,
    "Camera",
    "shop",
    "anna",
    "Anna",
    "Title",
    "Good",
    400,
    NOW,
    NOW,
    ReviewStatus.APPROVED,
    moderator="maria",
    moderation_reason="fine",
    written=Written(RecordPosition(0, 5, 100), (1,)),
)
AUTHOR, MODERATOR = EditRight.AUTHOR, EditRight.MODERATOR


def an_edit(**fields: Any) -> Edit:
    given: dict[str, Any] = {
        "target": IDENTITY,
        "content": Content("Better", 500),
        "position": RecordPosition(0, 6, 200),
        "message": 2,
        "record": 1_002,
    }
    return Edit("r", at=LATER, **given | fields)


def edited(
    review: Review = REVIEW, keeps: bool = False, images: EditImages = NO_IMAGES, **fields: Any
) -> tuple[Review, Edited]:
    return apply_edit(review, an_edit(**fields), images, keeps_status=keeps)


def test_author_changes_the_given_fields() -> None:
    after, result = edited()
    assert result == Edited(
        Outcome.APPLIED, None, ("review", "rating"), ReviewStatus.APPROVED, ReviewStatus.NEW, is_repeat=False
    )
    assert after.content == Content("Better", 500, "Title", "Anna", "Camera", ())
    moderation = (after.status, after.moderator, after.moderation_reason, after.modified)
    assert moderation == (ReviewStatus.NEW, None, None, LATER)
    assert after.written == Written(RecordPosition(0, 6, 200), (1, 2))


@pytest.mark.parametrize(("right", "keeps"), [(MODERATOR, False), (MODERATOR, True), (AUTHOR, True)])
def test_status_is_kept(right: EditRight, keeps: bool) -> None:
    after, result = edited(right=right, keeps=keeps)
    assert (after.status, after.moderator, after.modified) == (ReviewStatus.APPROVED, "maria", LATER)
    expected = (Outcome.APPLIED, ("review", "rating"), ReviewStatus.APPROVED, ReviewStatus.APPROVED)
    assert (result.outcome, result.fields, result.before, result.after) == expected


@pytest.mark.parametrize("right", EditRight)
@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (Content(None, None, "Corrected"), ("title",)),
        (Content("Better", None), ("review",)),
        (Content(None, 200), ("rating",)),
        (Content(None, 400), ()),
        (Content(None, None), ()),
    ],
)
def test_omitted_text_and_rating_are_kept(right: EditRight, content: Content, fields: tuple[str, ...]) -> None:
    whole = Content(content.text or "Good", content.rating or 400, content.title)
    batches = [
        edit_reviews([an_edit(content=each, right=right)], {"r": REVIEW}, (), {"shop"}) for each in (content, whole)
    ]
    assert batches[0] == batches[1]
    (result,) = batches[0].results
    assert (result.outcome, result.fields) == (Outcome.APPLIED if fields else Outcome.UNCHANGED, fields)
    tallies = {IDENTITY.key: RatingTally.of([200]) - RatingTally.of([400])} if "rating" in fields else {}
    assert batches[0].tallies == tallies


def test_names_of_changed_fields() -> None:
    _, result = edited(content=Content("a", 100, "b", "c", "d"))
    assert result.fields == ("review", "rating", "title", "userName", "entityName")


@pytest.mark.parametrize(
    "fields",
    [
        {"position": RecordPosition(0, 5, 100)},
        {"position": RecordPosition(0, 4, 90)},
        {"position": RecordPosition(1, 9, 99)},
        {"message": 1},
    ],
)
def test_old_edit_changes_nothing(fields: dict[str, Any]) -> None:
    after, result = edited(**fields)
    assert after is REVIEW
    assert result == Edited(Outcome.UNCHANGED, is_repeat=True)


@pytest.mark.parametrize("right", EditRight)
def test_edit_without_changes_does_not_overwrite_later_ones_when_repeated(right: EditRight) -> None:
    same = an_edit(content=Content("Good", 400), right=right)
    after, result = apply_edit(REVIEW, same, keeps_status=False)
    assert result == Edited(Outcome.UNCHANGED)
    assert after == replace(REVIEW, written=REVIEW.written.after(same.position, same.message))
    other = an_edit(content=Content("Fair", 300), message=3, position=RecordPosition(0, 7, 300))
    sent_again = replace(same, position=RecordPosition(0, 8, 400))
    batch = edit_reviews([same, other, sent_again], {"r": REVIEW}, (), {"shop"})
    assert batch.reviews["r"].text == "Fair"
    assert batch.results[2] == Edited(Outcome.UNCHANGED, is_repeat=True)


def test_edit_without_changes_or_right_leaves_no_trace() -> None:
    after, result = edited(content=Content("Good", 400), right=None)
    assert after is REVIEW
    assert result == Edited(Outcome.UNCHANGED)


@pytest.mark.parametrize(
    "position",
    [RecordPosition(0, 6, 50), RecordPosition(0, 1, 101), RecordPosition(1, 0, 100), RecordPosition(1, 0, 101)],
)
def test_newer_edit_is_applied(position: RecordPosition) -> None:
    after, result = edited(position=position)
    assert result.outcome is Outcome.APPLIED
    assert apply_edit(after, an_edit(position=position, message=3), keeps_status=False)[1].is_repeat
    assert after.written.position.timestamp == max(100, position.timestamp)


@pytest.mark.parametrize(
    "fields",
    [
        {"target": IDENTITY._replace(user_id="bert")},
        {"target": IDENTITY._replace(user_id=None)},
        {"target": IDENTITY._replace(store_id="other")},
        {"target": IDENTITY._replace(entity=Entity("Product", "lens")), "right": MODERATOR},
        {"target": IDENTITY._replace(entity=Entity("Vendor", "camera"))},
        {"right": None},
        {"stores": ["other"], "right": MODERATOR},
        # Only who sends a review again as it is may learn that nothing changes: not who guesses its text or its rating.
        *(
            {"content": guess, "right": None}
            for guess in (Content("Good", None), Content(None, 400), Content(None, None, "Title"))
        ),
    ],
)
def test_unauthorized_edit_is_refused(fields: dict[str, Any]) -> None:
    after, result = edited(**fields)
    assert after is REVIEW
    assert result == Edited(Outcome.REFUSED, Refusal.ID_TAKEN)


def test_store_rules_bind_only_authors() -> None:
    after, result = edited(refusal=Refusal.REVIEWS_DISABLED)
    assert result == Edited(Outcome.REFUSED, Refusal.REVIEWS_DISABLED)
    assert (after.content, after.status) == (REVIEW.content, REVIEW.status)
    assert apply_edit(after, an_edit(), keeps_status=False)[1].is_repeat
    assert edited(refusal=Refusal.REVIEWS_DISABLED, right=MODERATOR)[1].outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("fields", "is_same"),
    [({}, True), ({"store_id": None}, True), ({"store_id": "x"}, False), ({"user_id": None}, False)],
)
def test_submission_names_the_same_review(fields: dict[str, Any], is_same: bool) -> None:
    assert is_same_review(IDENTITY._replace(**fields), IDENTITY, AUTHOR) is is_same


def test_moderator_may_omit_the_author() -> None:
    assert is_same_review(IDENTITY._replace(user_id=None), IDENTITY, MODERATOR)
    assert an_edit(target=IDENTITY._replace(user_id=None), right=MODERATOR).may_touch(IDENTITY)
    assert not is_same_review(IDENTITY._replace(user_id="bert"), IDENTITY, MODERATOR)


CREATE, FOR_OTHERS = Permission.CREATE_REVIEWS, Permission.CREATE_REVIEWS_FOR_OTHERS
UPDATE = Permission.MODERATE_REVIEWS


@pytest.mark.parametrize(
    ("subject", "permissions", "user", "author", "right"),
    [
        ("anna", {CREATE}, "anna", "anna", AUTHOR),
        ("anna", {CREATE}, None, "anna", AUTHOR),
        ("anna", {CREATE, UPDATE}, "anna", "anna", AUTHOR),
        ("anna", {UPDATE}, "anna", "anna", None),
        ("anna", {CREATE}, "anna", "bert", None),
        ("anna", {CREATE}, None, None, None),
        ("anna", {UPDATE}, None, None, MODERATOR),
        ("maria", {UPDATE}, "anna", "anna", MODERATOR),
        ("shop", {CREATE, FOR_OTHERS}, "anna", "anna", AUTHOR),
        ("shop", {CREATE, FOR_OTHERS}, None, None, AUTHOR),
        ("shop", {CREATE, FOR_OTHERS}, None, "anna", None),
        ("shop", {FOR_OTHERS}, "anna", "anna", None),
        ("shop", {CREATE}, "anna", "anna", None),
    ],
)
def test_right_to_edit(
    subject: str, permissions: set[Permission], user: str | None, author: str | None, right: EditRight | None
) -> None:
    assert right_to_edit(Caller(subject, frozenset(permissions)), user, author) is right


def test_right_to_edit_without_authentication() -> None:
    assert right_to_edit(ANYBODY, "anna", "anna") is AUTHOR
    assert right_to_edit(ANYBODY, None, "anna") is MODERATOR


def test_command_never_edits_twice() -> None:
    edits = [an_edit(command_id="c", message=n, position=RecordPosition(0, 5 + n, 200)) for n in (2, 3)]
    changed = [edits[0], replace(edits[1], content=Content("Other", 100))]
    batch = edit_reviews(changed, {"r": REVIEW})
    assert [result.outcome for result in batch.results] == [Outcome.APPLIED, Outcome.UNCHANGED]
    assert batch.reviews["r"].text == "Better"
    again = edit_reviews(changed[1:], {"r": REVIEW}, answered={("c", "r")})
    assert (again.reviews, again.results[0].is_repeat) == ({}, True)
    gone = edit_reviews([an_edit()], {})
    assert gone.results == [Edited(Outcome.REFUSED, Refusal.ID_TAKEN)]


def test_refused_edits_do_not_affect_others() -> None:
    edits = [
        replace(an_edit(), review_id="gone"),
        an_edit(content=Content("Good", 400)),
        an_edit(command_id="c"),
        an_edit(message=3, position=RecordPosition(0, 7, 300)),
        replace(an_edit(content=Content("Fair", 300)), review_id="q"),
    ]
    batch = edit_reviews(edits, {"r": REVIEW, "q": REVIEW}, {("c", "r")}, {"shop"})
    outcomes = [Outcome.REFUSED, Outcome.UNCHANGED, Outcome.UNCHANGED, Outcome.APPLIED, Outcome.APPLIED]
    assert [result.outcome for result in batch.results] == outcomes
    assert {id: review.rating for id, review in batch.reviews.items()} == {"r": 500, "q": 300}
    assert batch.tallies == {TallyKey(CAMERA, "shop"): RatingTally.of([500, 300]) - RatingTally.of([400, 400])}


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(100, 500), st.sampled_from(EditRight)), max_size=30),
    st.booleans(),
)
def test_tallies_match_a_recount_and_no_older_text_wins(
    deliveries: list[tuple[int, int, EditRight]], keeps: bool
) -> None:
    edits = [
        an_edit(
            content=Content(f"text {n}", rating), position=RecordPosition(0, 10 + n, 200), message=10 + n, right=right
        )
        for n, rating, right in deliveries
    ]
    batch = edit_reviews(edits, {"r": REVIEW}, (), {"shop"} if keeps else ())
    after = batch.reviews.get("r", REVIEW)
    counted = Counter({after.rating: 1}) if after.status is ReviewStatus.APPROVED else Counter[int]()
    expected = RatingTally.of(counted.elements())
    change = batch.tallies.get(TallyKey(CAMERA, "shop"), RatingTally())
    assert RatingTally.of([400]) + change == expected
    if deliveries:
        assert after.text == f"text {max(n for n, _, _ in deliveries)}"


def test_redelivered_batch_changes_nothing() -> None:
    edits = [
        an_edit(position=RecordPosition(0, n, n), message=n, content=Content(f"{n}", 100 + n)) for n in range(200, 300)
    ]
    once = edit_reviews(edits, {"r": REVIEW})
    again = edit_reviews(edits, once.reviews)
    assert (again.reviews, again.tallies) == ({}, {})
    assert all(result.is_repeat for result in again.results)


def test_first_and_last_messages_are_remembered() -> None:
    written = Written(RecordPosition(0, 0, 0), (0,))
    for n in range(1, 1_000):
        written = written.after(RecordPosition(0, n, n), n)
    assert written.messages == (0, *range(1_001 - REMEMBERED_MESSAGES, 1_000))


def test_digests_of_messages() -> None:
    digests = {
        message_digest(None, CONTENT),
        message_digest(None, CONTENT._replace(title=None)),
        message_digest("a", CONTENT),
        message_digest("b", CONTENT),
    }
    assert len(digests) == 4
    assert message_digest("a", CONTENT) == message_digest("a", Content("x", 100))
    assert all(0 <= digest < 2**63 for digest in digests)


@pytest.mark.parametrize(
    ("identity", "content", "digest"),
    [
        ("a", CONTENT, 0x40F89E395B66422F),
        ("\ud800", CONTENT, 0x4208783E927D0D68),
        (None, CONTENT, 0xA3D81F1D82CB2245),
        (None, CONTENT._replace(images=()), 0xB9DF924438802DB0),
        (None, CONTENT._replace(images=("i1",)), 0x940F8949763BD1F1),
    ],
)
def test_stored_digests_are_stable(identity: str | None, content: Content, digest: int) -> None:
    # Computed independently: printf a | b2sum -l 64, printf "('Good', 400, 'Title', 'Anna', 'Camera')" | b2sum ...
    assert message_digest(identity, content) == digest // 2


def a_ruling(*outcomes: RuleOutcome) -> Ruling:
    return Ruling(tuple(ModerationRule(outcome.value, RuleKind.ALWAYS, outcome) for outcome in outcomes))


APPROVES, FLAGS, HOLDS = (a_ruling(each) for each in (RuleOutcome.APPROVE, RuleOutcome.FLAG, RuleOutcome.HOLD))


@pytest.mark.parametrize(
    ("ruling", "after", "is_approved"),
    [
        (APPROVES, ReviewStatus.NEW, True),
        (APPROVES, ReviewStatus.APPROVED, False),
        (APPROVES, ReviewStatus.REJECTED, False),
        (FLAGS, ReviewStatus.NEW, False),
        (Ruling(), ReviewStatus.NEW, False),
        (None, ReviewStatus.NEW, False),
    ],
)
def test_rules_approve_only_new_reviews_after_an_edit(
    ruling: Ruling | None, after: ReviewStatus, is_approved: bool
) -> None:
    assert Edited(Outcome.APPLIED, after=after, ruling=ruling).is_approved is is_approved


NEW, APPROVED, REJECTED = ReviewStatus.NEW, ReviewStatus.APPROVED, ReviewStatus.REJECTED
BY_MARIA, BY_NOBODY, BY_RULE = ("maria", "fine"), (None, None), ("rule:approve", None)


@pytest.mark.parametrize(
    ("before", "keeps", "ruling", "after_edit", "after", "decided"),
    [
        (APPROVED, False, APPROVES, NEW, APPROVED, BY_RULE),
        (APPROVED, False, FLAGS, NEW, NEW, BY_NOBODY),
        (APPROVED, True, APPROVES, APPROVED, APPROVED, BY_MARIA),
        (APPROVED, True, FLAGS, APPROVED, APPROVED, BY_MARIA),
        (APPROVED, True, HOLDS, NEW, NEW, BY_NOBODY),
        (REJECTED, True, APPROVES, REJECTED, REJECTED, BY_MARIA),
        (REJECTED, True, HOLDS, REJECTED, REJECTED, BY_MARIA),
        (REJECTED, False, HOLDS, NEW, NEW, BY_NOBODY),
        (REJECTED, False, APPROVES, NEW, NEW, BY_NOBODY),
        (NEW, True, APPROVES, NEW, APPROVED, BY_RULE),
        (NEW, False, APPROVES, NEW, APPROVED, BY_RULE),
        (NEW, False, HOLDS, NEW, NEW, BY_MARIA),
    ],
)
def test_rules_judge_edits_by_authors(
    before: ReviewStatus,
    keeps: bool,
    ruling: Ruling,
    after_edit: ReviewStatus,
    after: ReviewStatus,
    decided: tuple[str | None, str | None],
) -> None:
    judged: list[tuple[str, str]] = []

    def judge(id: str, review: Review) -> Ruling:
        judged.append((id, review.text))
        return ruling

    code = ReasonCode.SPAM if before is REJECTED else None
    review = replace(REVIEW, status=before, reason_code=code, flags=("old",), is_held=True)
    edits = edit_reviews([an_edit()], {"r": review}, keeping_status={"shop"} if keeps else (), judge=judge)
    (result,), changed = edits.results, edits.reviews["r"]
    expected = replace(ruling, was_rejected=before is REJECTED and after_edit is NEW)
    assert (result.before, result.after, result.ruling) == (before, after_edit, expected)
    assert (changed.status, changed.moderator, changed.moderation_reason) == (after, *decided)
    assert changed.reason_code is (code if after is REJECTED else None)
    assert (changed.flags, changed.is_held) == (expected.flags, expected.is_held)
    assert judged == [("r", "Better")]


def test_rejected_review_needs_a_moderator_however_often_it_is_edited() -> None:
    review = replace(REVIEW, status=REJECTED)
    for number in range(3):
        change = an_edit(
            content=Content(f"Text {number}", 500), position=RecordPosition(0, 6 + number, 200), message=2 + number
        )
        review, result = apply_edit(review, change, keeps_status=False, judge=lambda *_: APPROVES)
        assert (review.status, review.flags, review.is_held) == (NEW, ("rejected-before",), True)
        assert result.ruling is not None
        assert (result.is_approved, result.ruling.planned_approval) == (False, None)
    approved = replace(review, status=APPROVED)
    again = an_edit(content=Content("Last", 500), position=RecordPosition(0, 10, 200), message=10)
    after, _ = apply_edit(approved, again, keeps_status=False, judge=lambda *_: APPROVES)
    assert (after.status, after.flags, after.is_held) == (APPROVED, (), False)
    without_rules, _ = edited(replace(REVIEW, status=REJECTED))
    assert (without_rules.flags, without_rules.is_held) == (("rejected-before",), True)


LOW = ModerationRule("low", RuleKind.STARS, RuleOutcome.HOLD, below=200, publish_after_hours=24)


def test_rejected_review_gets_no_planned_approval() -> None:
    review = replace(REVIEW, status=REJECTED)
    _, result = apply_edit(review, an_edit(), keeps_status=False, judge=lambda *_: Ruling((LOW,)))
    assert result.ruling is not None
    assert (result.ruling.flags, result.ruling.planned_approval) == (("low", "rejected-before"), None)


def test_rules_do_not_judge_edits_by_moderators() -> None:
    review = replace(REVIEW, flags=("old",), is_held=True)
    edits = edit_reviews([an_edit(right=MODERATOR)], {"r": review}, judge=lambda *_: APPROVES)
    assert edits.results[0].ruling is None
    assert (edits.reviews["r"].flags, edits.reviews["r"].is_held) == (("old",), True)


def test_old_flags_are_cleared_if_the_store_has_no_rules() -> None:
    after, result = edited(replace(REVIEW, flags=("old",), is_held=True))
    assert (after.flags, after.is_held, result.ruling) == ((), False, None)


def test_edit_sets_the_detected_language() -> None:
    review = replace(REVIEW, facts=Facts(True, language="en"))
    for languages, language in (({"r": "de"}, "de"), ({"r": None}, None), ({"q": "de"}, "en")):
        facts = edit_reviews([an_edit()], {"r": review}, languages=languages).reviews["r"].facts
        assert facts == Facts(True, language=language)
    assert edited(review)[0].facts == review.facts


def test_edit_selects_images() -> None:
    hidden = ReviewImage("a", is_hidden=True)
    review = replace(REVIEW, images=(hidden, ReviewImage("b")))
    after, result = edited(review, images=EditImages(ready={"c"}), content=Content("Good", 400, images=("c", "a", "d")))
    assert after.images == (ReviewImage("c"), hidden, ReviewImage("d", is_pending=True))
    assert (after.content.images, result.fields) == (("c", "a", "d"), ("images",))
    assert edited(review, content=Content("Better", 400))[0].images == review.images
    assert edited()[0].images == ()


@pytest.mark.parametrize("right", EditRight)
@pytest.mark.parametrize("status", ReviewStatus)
def test_images_that_an_author_adds_to_a_review_that_stays_approved_are_hidden(
    status: ReviewStatus, right: EditRight
) -> None:
    review = replace(REVIEW, status=status, images=(ReviewImage("a"),))
    content = Content("Good", 400, images=("a", "ready", "pending"))
    images = EditImages(ready={"ready"}, effective=LATER)
    after, _ = edited(review, keeps=True, images=images, right=right, content=content)
    is_hidden = status is ReviewStatus.APPROVED and right is AUTHOR
    assert after.images == (
        ReviewImage("a"),
        ReviewImage("ready", is_hidden, ready_at=LATER, is_unseen=is_hidden),
        ReviewImage("pending", is_hidden, is_pending=True, is_unseen=is_hidden),
    )


@pytest.mark.parametrize("right", EditRight)
def test_invalid_images_are_refused_for_any_editor(right: EditRight) -> None:
    refused = EditImages(Refusal.UNKNOWN_IMAGE)
    after, result = edited(images=refused, right=right)
    assert result == Edited(Outcome.REFUSED, Refusal.UNKNOWN_IMAGE)
    assert after == replace(REVIEW, written=Written(RecordPosition(0, 6, 200), (1,)))
    both = edited(images=refused, right=AUTHOR, refusal=Refusal.REVIEWS_DISABLED)[1]
    assert both.reason is Refusal.REVIEWS_DISABLED


@pytest.mark.parametrize("position", [RecordPosition(0, 6, 200), RecordPosition.of_time(200)], ids=["first", "replay"])
def test_redelivered_refused_edit_stays_refused(position: RecordPosition) -> None:
    after, result = edited(position=position, refusal=Refusal.REVIEWS_DISABLED)
    assert result.reason is Refusal.REVIEWS_DISABLED
    again, repeated = edited(after, position=position)
    assert (again, repeated) == (after, Edited(Outcome.UNCHANGED, is_repeat=True))
    _, in_another_record = edited(after, position=position._replace(timestamp=300), record=1_003)
    assert in_another_record.outcome is Outcome.APPLIED


@pytest.mark.parametrize(("stores", "may"), [(None, True), (("shop",), True), (("other",), False), ((), False)])
@pytest.mark.parametrize("right", EditRight)
def test_stores_limit_the_reviews_that_may_be_edited(
    stores: tuple[str, ...] | None, may: bool, right: EditRight
) -> None:
    assert an_edit(stores=stores, right=right).may_touch(IDENTITY) is may
    assert not an_edit(stores=stores, right=right).may_touch(IDENTITY._replace(entity=Entity("Product", "lens")))


@pytest.mark.parametrize(
    ("words", "is_given", "is_needed"),
    [
        ({"text": "Better"}, False, True),
        ({"title": "Other"}, False, True),
        ({"text": "Better"}, True, False),
        ({"rating": 100, "user_name": "Bert", "entity_name": "Lens"}, False, False),
    ],
)
def test_changed_words_need_language_detection(words: dict[str, Any], is_given: bool, is_needed: bool) -> None:
    before = replace(REVIEW, facts=Facts(is_language_given=is_given))
    assert needs_language_detection(before, replace(before, **words)) is is_needed


def test_dropped_image_cannot_return_unhidden() -> None:
    hidden = ReviewImage("a", is_hidden=True)
    review = replace(REVIEW, images=(hidden,))
    first = an_edit(content=Content("Good", 400, images=()), position=RecordPosition(0, 6, 200), message=2)
    again = replace(first, content=Content("Good", 400, images=("a",)), position=RecordPosition(0, 7, 300), message=3)
    other = replace(again, review_id="other")
    images = ClaimableImages({"a": StoredImage("a", ImageState.READY, NOW, review_id=first.review_id)}, (), LATER)
    batch = edit_reviews([first, again, other], {first.review_id: review, "other": REVIEW}, images=images)
    assert [result.reason for result in batch.results] == [None, Refusal.UNKNOWN_IMAGE, Refusal.UNKNOWN_IMAGE]
    assert batch.reviews[first.review_id].images == ()


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(200, LATER), (milliseconds(LATER) + 1, LATER + timedelta(milliseconds=1))],
    ids=["by MongoDB's clock", "by the record's time"],
)
def test_edit_claims_the_images_that_it_names(timestamp: int, since: datetime) -> None:
    stored = {id: StoredImage(id, state, NOW) for id, state in (("a", ImageState.READY), ("b", ImageState.AWAITED))}
    content = Content("Better", 500, images=("a", "b", "c"))
    first = an_edit(content=content, position=RecordPosition(0, 6, timestamp))
    batch = edit_reviews([first], {"r": REVIEW}, images=ClaimableImages(stored, {"c"}, LATER))
    assert batch.results[0].outcome is Outcome.APPLIED
    pending = (ReviewImage("b", is_pending=True), ReviewImage("c", is_pending=True))
    assert batch.reviews["r"].images == (ReviewImage("a", ready_at=since), *pending)


def test_edit_keeps_the_images_of_its_review() -> None:
    stored = StoredImage("a", ImageState.READY, NOW, review_id="r")
    edit = an_edit(content=Content("Better", 500, images=("a",)))
    batch = edit_reviews(
        [edit, replace(edit, review_id="s")],
        dict.fromkeys("rs", REVIEW),
        images=ClaimableImages({"a": stored}, (), LATER),
    )
    assert [each.reason for each in batch.results] == [None, Refusal.IMAGE_OF_ANOTHER]


def test_image_goes_to_the_first_edit_that_takes_effect() -> None:
    mine, others = StoredImage("a", ImageState.READY, NOW, "anna"), StoredImage("b", ImageState.READY, NOW, "berta")
    edits = [
        replace(an_edit(content=Content("Better", 500, images=images)), review_id=id)
        for id, images in (("q", ("a", "b")), ("r", ("a",)), ("s", ("a",)), ("t", ()), ("u", None), ("v", ("c",)))
    ]
    images = ClaimableImages({"a": mine, "b": others}, (), LATER)
    batch = edit_reviews(edits, dict.fromkeys("qrstuv", REVIEW), images=images)
    others_image, unknown = Refusal.IMAGE_OF_ANOTHER, Refusal.UNKNOWN_IMAGE
    assert [each.reason for each in batch.results] == [others_image, None, others_image, None, None, unknown]


def test_pending_images_are_kept_beside_those_of_the_edit() -> None:
    shown, pending = ReviewImage("shown", ready_at=NOW), ReviewImage("pending", is_pending=True)
    review = replace(REVIEW, images=(shown, pending))
    content = Content("Better", 500, images=("new", "shown"))
    fields: dict[str, Any] = {"content": content, "images": EditImages(ready={"new"}, effective=LATER)}
    new = ReviewImage("new", ready_at=LATER)
    assert edited(review, **fields, keeps_pending=True)[0].images == (new, shown, pending)
    assert edited(review, **fields)[0].images == (new, shown)
    assert edited(review, keeps_pending=True)[0].images == (shown, pending), "the edit names no images"


def test_pending_images_are_kept_as_earlier_edits_left_them() -> None:
    pending = ReviewImage("a", is_pending=True)
    review = replace(REVIEW, images=(pending,))
    other = an_edit(content=Content("Good", 400, images=("b",)))
    row = replace(other, content=Content("Best", 400, images=()), position=RecordPosition(0, 7, 300), message=3)
    batch = edit_reviews([other, replace(row, keeps_pending=True)], {"r": review})
    assert [result.reason for result in batch.results] == [None, None]
    assert batch.reviews["r"].images == (ReviewImage("b", is_pending=True),)
    assert batch.reviews["r"].content == CONTENT._replace(text="Best", images=("b",))
    assert edit_reviews([row], {"r": review}).reviews["r"].images == ()


@pytest.mark.parametrize(("title", "flags"), [("Title", ("low", "verdict:ai")), ("Other", ("low",))])
def test_verdict_flag_lasts_as_long_as_the_text(title: str, flags: tuple[str, ...]) -> None:
    review = replace(REVIEW, status=ReviewStatus.NEW, flags=("low", "verdict:ai"), is_held=True)
    content = review.content._replace(rating=150, title=title)
    after, result = apply_edit(review, an_edit(content=content), keeps_status=False, judge=lambda *_: Ruling((LOW,)))
    assert after.flags == flags
    assert result.ruling is not None
    assert (result.ruling.planned_approval is None) == (title == "Title")
    after, result = apply_edit(review, an_edit(content=content), keeps_status=False, judge=lambda *_: APPROVES)
    assert (after.status is ReviewStatus.APPROVED) == result.is_approved == (title == "Other")
    assert apply_edit(review, an_edit(content=content), keeps_status=False)[0].flags == flags[1:]
