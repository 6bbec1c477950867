"""Dead letters: search, view, try, mend and replay, one or several."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response

from console.api_client import LONG_WAIT_S, Refused, settled
from console.fields import is_about
from console.screens import ROWS, Screens
from console.visits import Visit, key_of
from domain.permissions import Permission
from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import LetterState
from messaging.topics import CONSUMED

PATH: Final = "/console/dead-letters"
_PLACE: Final = "/dead-letters/{topic}/{partition}/{offset}"
_API: Final = "/api/deadLetters"
_REPLAY: Final = f"{_API}/replay"

_ANY: Final = "any"
"""The filter for letters in any state."""

_WORDS: Final = {
    "applied": "Replayed: its consumer will process it.",
    "not-found": "Kafka no longer keeps it.",
}
"""The messages for outcomes of a replay without a reason."""

_STRING_OR_SPACE: Final = re.compile(r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|[ \n\t]+')

_ID: Final = re.compile(r".+/([0-9]+)-([0-9]+)--?[0-9]+")
"""The id of a letter, with its partition and offset."""

_SPARE_LENGTH: Final = 65_536
"""Characters that an indented value may have beyond twice its original length."""

_EMPTIED: Final = "The value is empty. Enter another one, or reload this page to get the original."

screens = Screens()


@screens.get("/dead-letters", Permission.READ_DEAD_LETTERS)
async def dead_letters(visit: Visit) -> Response:
    """Letters, newest first, by topic and code; open ones unless another state is requested."""
    query = visit.query
    state = query.get("state", LetterState.OPEN)
    wanted = {name: query.get(name) for name in ("topic", "code", "after")} | {
        "state": None if state == _ANY else state,
        "take": ROWS,
    }
    try:
        found, refused = await visit.facade.ask("GET", _API, query=wanted), None
    except Refused as refusal:
        # Any text can be typed there, and the other filters stay.
        if not is_about(refusal, "code"):
            raise
        found, refused = {"results": [], "next": None}, refusal
    choices: Mapping[str, Any] = {
        "topics": sorted(CONSUMED),
        "codes": tuple(DeadLetterCode),
        "states": [*LetterState, _ANY],
        "state": state,
    }
    return visit.page("dead_letters.html", rows=found["results"], next=found["next"], refused=refused, **choices)


@screens.get(_PLACE, Permission.READ_DEAD_LETTERS)
async def dead_letter(visit: Visit) -> Response:
    """One letter with its value, and the reason why it would be refused again."""
    letter = await _letter(visit)
    return _page(visit, letter, refusal=letter["refusal"])


@screens.post(_PLACE, Permission.READ_DEAD_LETTERS, Permission.REPLAY_DEAD_LETTERS)
async def mend(visit: Visit) -> Response:
    """Try or replay a letter, as it is or mended. One that would be refused again is replayed only by `anyway`."""
    form, letter = await visit.form(), await _letter(visit)
    action, typed, editable = form.get("action"), form.get("value", ""), letter["editable"]
    if "value" in form and not typed.strip() and (editable or "").strip():
        return _page(visit, letter, status=422, typed=typed, obstacle=_EMPTIED)
    body: dict[str, Any] = {"places": [letter["place"]]}
    if typed.strip() and typed != editable:
        body["value"] = typed if editable == letter["value"] else await asyncio.to_thread(_in_one_line, typed)
    try:
        (tried,) = await _try(visit, body)
        refusal = tried.get("refusal")
        obstacle = None if tried["outcome"] == "applied" else _message(tried)
        shown: dict[str, Any] = {"typed": typed, "refusal": refusal, "obstacle": obstacle}
        if action == "try":
            return _page(visit, letter, **shown, is_tried=not refusal and not obstacle)
        if obstacle or (refusal and action != "anyway"):
            return _page(visit, letter, status=422, **shown)
        results = await _replay(visit, body, key_of(form))
    except Refused as refused:
        if refused.status not in (413, 422):
            raise
        return _page(visit, letter, typed=typed, refused=refused)
    if results is not None and results[0]["outcome"] != "applied":
        return _page(visit, letter, status=409, typed=typed, obstacle=_message(results[0]))
    return visit.back(f"{PATH}/{letter['place']}", "accepted" if results is None else "replayed")


@screens.post("/dead-letters", Permission.READ_DEAD_LETTERS, Permission.REPLAY_DEAD_LETTERS)
async def replay(visit: Visit) -> Response:
    """Try or replay the selected letters as they are, and show the outcome of each."""
    form = await visit.form()
    places = form.getlist("places")
    if not places:
        none = Refused(422, {"detail": "No letter is selected. Select at least one, and try again."})
        return visit.problem(none, back=visit.address)
    if form.get("action") == "try":
        tried = await _try(visit, {"places": places})
        ready = [each["id"] for each in tried if each["outcome"] == "applied" and not each.get("refusal")]
        return visit.page("dead_letters_replay.html", results=tried, ready=ready, words=_WORDS, is_trial=True)
    results = await _replay(visit, {"places": places}, key_of(form))
    if results is None:
        return visit.back(visit.address, "accepted")
    return visit.page("dead_letters_replay.html", results=results, ready=[], words=_WORDS, is_trial=False)


async def _letter(visit: Visit) -> Mapping[str, Any]:
    """A letter, with its value in an editable form, too."""
    place = "/".join(map(visit.segment, ("topic", "partition", "offset")))
    letter: Mapping[str, Any] = await visit.facade.ask("GET", f"{_API}/{place}")
    # In a thread: a large value would block other requests.
    return {**letter, "editable": await asyncio.to_thread(_editable, letter), "first": _place_of_first(letter)}


def _place_of_first(letter: Mapping[str, Any]) -> str | None:
    """The place of the letter that this one is a replay of: a message that is replayed stays in its topic."""
    found = _ID.fullmatch(letter["replayedFrom"] or "")
    return found and f"{letter['topic']}/{found[1]}/{found[2]}"


async def _try(visit: Visit, body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The effect that a replay of each letter would have, without publishing anything. Raises Refused."""
    answer = await visit.facade.ask("POST", _REPLAY, {**body, "dryRun": True})
    results: Sequence[Mapping[str, Any]] = answer["results"]
    return results


async def _replay(visit: Visit, body: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]] | None:
    """Replay letters and return the outcome of each; None if these aren't known in time. Raises Refused."""
    answer = await settled(visit.facade.command("POST", _REPLAY, body, key=key, wait=LONG_WAIT_S))
    return answer.get("results")


def _page(visit: Visit, letter: Mapping[str, Any], *, status: int = 200, **shown: Any) -> Response:
    """A letter with the outcome of a try or a replay: `refusal` by its consumer, `obstacle` to any replay, `refused` by
    the API; `is_tried`: a try succeeded."""
    defaults = {"typed": None, "refusal": None, "obstacle": None, "refused": None, "is_tried": False}
    return visit.page("dead_letter.html", status=status, letter=letter, editable=letter["editable"], **defaults | shown)


def _message(result: Mapping[str, Any]) -> str:
    outcome = result["outcome"]
    return str(result.get("message") or _WORDS.get(outcome, outcome))


def _editable(letter: Mapping[str, Any]) -> str | None:
    """The value in an editable form, JSON indented unless that makes it much longer, as with deep nesting; None if it
    is no text, or was cut."""
    value: str | None = letter["value"]
    if value is None or len(value.encode()) != letter["valueBytes"]:
        return None
    if any(character < " " and character not in "\t\n" for character in value):
        return None
    with suppress(ValueError, RecursionError):
        parsed: object = json.loads(value)
        # Only if parsing loses nothing, such as a duplicate field or digits of a number.
        written = (json.dumps(parsed, ensure_ascii=False, separators=each) for each in ((",", ":"), (", ", ": ")))
        if value in written:
            return _by_lines(parsed, _SPARE_LENGTH + 2 * len(value)) or value
    return value


def _by_lines(parsed: object, most: int) -> str | None:
    """The JSON with one element per line; None if it has more than `most` characters."""
    parts, length = [], 0
    for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(parsed):
        length += len(part)
        if length > most:
            return None
        parts.append(part)
    return "".join(parts)


def _in_one_line(typed: str) -> str:
    """The value without the whitespace between tokens, which made it editable but larger; unchanged if it isn't
    JSON."""
    try:
        json.loads(typed)
    except (ValueError, RecursionError):
        return typed
    return _STRING_OR_SPACE.sub(lambda found: found["string"] or "", typed)
