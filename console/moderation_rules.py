"""The moderation rules of a store: a form, and a trial on its latest reviews before they are saved."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from console.api_client import Refused, segment
from console.fields import Form, number, place_in_words
from console.screens import Screens
from console.stores import PATH, store_path
from console.visits import Visit, key_of
from domain.moderation_rules import MOST_RULES, RuleKind, RuleOutcome
from domain.permissions import Permission
from messaging.moderation_rules_trial import TriedReview

TRIED: Final = 200
"""Maximum number of the store's latest reviews in a trial."""

_SHOWN: Final = 50
_OUTCOMES: Final = (RuleOutcome.HOLD, RuleOutcome.FLAG, RuleOutcome.APPROVE)
_NUMBERS: Final = ("below", "above", "publishAfterHours")
_LISTS: Final = ("words", "languages")
_UNTOUCHED: Final = (
    {"id": "", "kind": "", "outcome": ""},
    {"id": "", "kind": next(iter(RuleKind)).value, "outcome": _OUTCOMES[0].value},
)
"""A rule that is missing in a form, and the empty one that a form offers."""

_AT_RULE: Final = re.compile(r"(?:/settings)?/(?:rules|moderationRules)/(\d+)(.*)")
_TOGETHER: Final = ("/rules", "/settings/moderationRules")
"""The pointers of errors that are about all rules together."""
_FIELD_NAME: Final = re.compile(r"`(\w+)`")
_LABELS: Final = {
    "id": "Name",
    "kind": "Fires for",
    "outcome": "Then",
    "words": "Words and phrases",
    "languages": "Languages",
    "below": "Fewer stars than",
    "above": "More stars than",
    "publishAfterHours": "Approved after hours",
}
"""The labels of the fields of a rule, by their names in the API."""

Rule = Mapping[str, Any]

screens = Screens()


class Difference(NamedTuple):
    """A rule that was added, removed or changed; `before` is None for an added one, `after` for a removed one."""

    id: str
    before: Rule | None
    after: Rule | None


@screens.get("/stores/{id}/rules", Permission.READ_SETTINGS)
async def rules(visit: Visit) -> Response:
    """The rules in force, as a form."""
    store = await _store(visit)
    current = store["settings"]["moderationRules"]
    return _form_page(visit, store, current, loaded=current)


@screens.post("/stores/{id}/rules", Permission.READ_SETTINGS)
async def change_rules(visit: Visit) -> Response:
    """Try the submitted rules, or save them if those in force are still the ones that the form was rendered with."""
    form, store = await visit.form(), await _store(visit)
    wanted, loaded = _submitted_rules(form), _list_in(form, "loaded")
    current = store["settings"]["moderationRules"]
    here = f"{PATH}/{segment(store['id'])}/rules"
    if form.get("step") == "edit":
        return _form_page(visit, store, wanted, loaded=loaded)
    try:
        is_conflict = current not in (loaded, wanted)
        if form.get("step") != "save":
            return await _trial_page(visit, store, wanted, is_conflict=is_conflict)
        # Also true for a form that is sent twice.
        if current == wanted:
            return visit.back(here, "saved")
        if is_conflict:
            return await _trial_page(visit, store, wanted, is_conflict=True, status=409)
        body = {"settings": {"moderationRules": wanted}}
        answer = await visit.facade.command("PUT", store_path(store["id"]), body, key=key_of(form))
    except Refused as refused:
        if refused.status == 401:
            raise
        return _form_page(visit, store, wanted, loaded=loaded, refused=refused)
    return visit.after(answer, here, "saved")


async def _store(visit: Visit) -> dict[str, Any]:
    answer: dict[str, Any] = await visit.facade.ask("GET", store_path(visit.path["id"]))
    return answer


def _form_page(
    visit: Visit, store: Rule, rules: Sequence[Rule], *, loaded: Sequence[Rule], refused: Refused | None = None
) -> Response:
    errors, together, wrong = dict[int, list[str]](), list[str](), dict[int, set[str]]()
    for error in refused.errors if refused else ():
        message = _FIELD_NAME.sub(lambda name: f"“{_LABELS.get(name[1], name[1])}”", error["message"])
        if found := _AT_RULE.match(error["pointer"]):
            field = place_in_words(found[2], _LABELS)
            errors.setdefault(int(found[1]), []).append(f"{field}: {message}" if field else message)
            wrong.setdefault(int(found[1]), set()).update(_wrong_fields(found[2], error["message"]))
        elif error["pointer"] in _TOGETHER:
            together.append(message)
    return visit.page(
        "moderation_rules.html",
        store=store,
        rules=rules,
        loaded=json.dumps(loaded),
        kinds=list(RuleKind),
        tried=TRIED,
        outcomes=_OUTCOMES,
        errors=errors,
        wrong=wrong,
        together=together,
        refused=refused,
        rows=[*rules, {}][:MOST_RULES],
    )


def _wrong_fields(place: str, message: str) -> set[str]:
    """The fields of a rule that an error is about: by its place in the rule, else by those that the message names."""
    named = {place.split("/")[1]} if place else set(_FIELD_NAME.findall(message))
    return named & _LABELS.keys() or {"id"}


async def _trial_page(
    visit: Visit, store: Rule, rules: Sequence[Rule], *, is_conflict: bool, status: int = 200
) -> Response:
    current = store["settings"]["moderationRules"]
    latest = await _latest_reviews(visit, store["id"])
    reviews, now, then = await _try_rules(
        visit, store, [each for each in latest if _can_be_tried(each)], current, rules
    )
    rows = [
        {"review": review, "now": before, "then": after}
        for review, before, after in zip(reviews, now["results"], then["results"], strict=False)
        if before["fired"] or after["fired"]
    ]
    rows.sort(key=lambda row: row["now"]["outcome"] == row["then"]["outcome"])
    return visit.page(
        "moderation_rules_trial.html",
        status=status,
        store=store,
        count=len(reviews),
        latest=len(latest),
        may_read=visit.may(Permission.READ_REVIEWS),
        now=now["summary"],
        then=then["summary"],
        rows=rows[:_SHOWN],
        left_off=max(0, len(rows) - _SHOWN),
        differences=_differences(current, rules),
        is_reordered=[each["id"] for each in current] != [each["id"] for each in rules],
        rules=rules,
        rules_json=json.dumps(rules),
        labels=_LABELS,
        loaded=json.dumps(current),
        is_conflict=is_conflict,
    )


async def _try_rules(
    visit: Visit, store: Rule, reviews: list[dict[str, Any]], current: Sequence[Rule], rules: Sequence[Rule]
) -> tuple[list[dict[str, Any]], Mapping[str, Any], Mapping[str, Any]]:
    """The reviews that were tried, and their results by the current rules and by `rules`. If the reviews are too large
    for a request, only the first ones are tried; without any, a sample stands in, so that the rules are validated in
    any case. Raises Refused."""
    path = f"{store_path(store['id'])}/moderationRules/try"
    while True:
        sample = reviews or [{"review": "-", "rating": 5}]
        try:
            then = await visit.facade.ask("POST", path, {"reviews": sample, "rules": rules})
            return reviews, await visit.facade.ask("POST", path, {"reviews": sample, "rules": current}), then
        except Refused as refused:
            if refused.status != 413 or not reviews:
                raise
            reviews = reviews[: len(reviews) // 2]


def _can_be_tried(review: Mapping[str, Any]) -> bool:
    """True unless a stored review lacks a field that a trial needs."""
    try:
        TriedReview.model_validate(review)
    except ValidationError:
        return False
    return True


async def _latest_reviews(visit: Visit, store_id: str) -> list[dict[str, Any]]:
    """The rows of the store's latest reviews; none for visitors who may not read reviews."""
    if not visit.may(Permission.READ_REVIEWS):
        return []
    search = {"storeId": store_id, "take": TRIED, "withTotal": False}
    rows: list[dict[str, Any]] = (await visit.facade.ask("POST", "/api/customerReviews/search", search))["results"]
    return rows


def _differences(before: Sequence[Rule], after: Sequence[Rule]) -> list[Difference]:
    old, new = ({str(rule.get("id")): rule for rule in rules} for rules in (before, after))
    return [Difference(id, old.get(id), new.get(id)) for id in {**old, **new} if old.get(id) != new.get(id)]


def _submitted_rules(form: Form) -> list[dict[str, Any]]:
    """The rules of a form: as JSON in `rules`, or field by field. Removed rules are left out, and so is the empty one
    that the form offers, if it is untouched; other rules without a name stay, and the API refuses them."""
    if "rules" in form:
        return _list_in(form, "rules")
    found = []
    for index in range(MOST_RULES + 1):
        of_rule = {name: form.get(f"{index}.{name}", "").strip() for name in ("id", "kind", "outcome")}
        rule = {**of_rule, **_details(form, index)}
        if rule not in _UNTOUCHED and f"{index}.remove" not in form:
            found.append(rule)
    return found


def _details(form: Form, index: int) -> dict[str, Any]:
    words = [line.strip() for line in form.get(f"{index}.words", "").splitlines() if line.strip()]
    languages = re.findall(r"[^\s,]+", form.get(f"{index}.languages", ""))
    numbers = {name: number(form.get(f"{index}.{name}", "")) for name in _NUMBERS}
    given = {"words": words, "languages": languages, **numbers}
    return {name: value for name, value in given.items() if value not in (None, [])}


def _list_in(form: Form, name: str) -> list[dict[str, Any]]:
    try:
        rules = orjson.loads(form.get(name, ""))
    except ValueError:
        rules = None
    if not isinstance(rules, list) or not all(_can_be_shown(rule) for rule in rules):
        raise Refused(422, {"detail": "The form is incomplete. Reload the page."})
    return rules


def _can_be_shown(rule: object) -> bool:
    return isinstance(rule, dict) and all(isinstance(rule.get(name, []), list) for name in _LISTS)
