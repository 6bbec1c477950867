"""Endpoints of dead letters: list, read, replay."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, NotRequired

from fastapi import Depends, Query
from pydantic import Field, TypeAdapter
from starlette.responses import Response
from typing_extensions import TypedDict

from api import examples
from api.auth.permissions import DeadLetterReader, DeadLetterReplayer
from api.commands import Command, CommandAnswer, Commanded, carry_out, command_answers
from api.dead_letters_pages import ends_in, ends_text
from api.outcomes import ItemResult
from api.outcomes_messages import MESSAGES
from api.services import Injected, Services
from api.stores.bounds import check_unbound
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.problems import ItemError, ProblemError, ProblemKind, invalid_at, item_error, unavailable
from api.web.queries import any_case
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.permissions import Caller
from domain.timestamps import timestamp
from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import (
    REPLAYS_KEY,
    LetterPlace,
    LetterState,
    PlaceText,
    moment_of,
    optional_text_of,
    place_in,
)
from messaging.decoding import MAX_MESSAGE_BYTES, InvalidMessageError, refusal_of
from messaging.json_values import present
from messaging.kafka.dead_letters import DeadLetterTopics, LetterPreview, OpenedLetters, Search, preview_of
from messaging.readers import READERS
from messaging.schemas import EMPTY_IS_MISSING, ClosedMessage, ShownMoment, usable
from messaging.templates.rendering import in_template_thread
from messaging.topics import CONSUMED, Topic
from storage.dead_letters_replays import UNMARKED, LetterMark, obstacle_to_replay

_MOST_PLACES: Final = 100
_MOST_TAKEN: Final = 200
_WHOLE_VALUE: Final = MAX_MESSAGE_BYTES
_NOT_FOUND: Final = "There is no dead letter at this place: it may be older than the retention of its topic."
_TOO_LARGE: Final = "Too large when written as JSON: `plaudit dlq replay --value` accepts up to 1 MiB"


class LetterRow(TypedDict):
    """A dead letter. `place` names it for a replay; `value` is the beginning of its value as text, `valueBytes` the
    size of all of it. `replayed` is its number of replays, `replayedFrom` the first letter of its replays; `state` is
    open until it is replayed or discarded."""

    place: str
    topic: str
    partition: int
    offset: int
    at: ShownMoment
    code: str
    reason: str
    key: str | None
    value: str | None
    valueBytes: int
    state: LetterState
    replayed: int
    replayedFrom: str | None


class LetterPage(TypedDict):
    """Dead letters, newest first. `next` is the `after` of the next page; null on the last one."""

    results: list[LetterRow]
    next: str | None


class RefusedAgain(TypedDict):
    """The reason why the consumer of the topic would dead-letter a message."""

    code: str
    message: str
    errors: list[ItemError]


class Letter(LetterRow):
    """A dead letter with up to 1 MiB of its value, its headers, and `refusal`, the reason why its consumer would refuse
    it now; null: the consumer can read it."""

    headers: list[tuple[str, str | None]]
    refusal: RefusedAgain | None


class TriedReplay(ItemResult):
    """The outcome that the replay of a letter would have, and the reason why its message would be refused."""

    refusal: NotRequired[RefusedAgain | None]


class TriedReplays(TypedDict):
    """The outcomes of a dry run, letter by letter."""

    results: list[TriedReplay]


class Replay(ClosedMessage):
    """The letters to replay, by their places. `value` repairs a single letter: it replaces the letter's own value."""

    places: Annotated[list[PlaceText], Field(min_length=1, max_length=_MOST_PLACES)]
    value: Annotated[str | None, Field(max_length=MAX_MESSAGE_BYTES)] = None
    dry_run: Annotated[bool, Field(description="true: report what would happen, and publish nothing")] = False


REPLAY: Final = JsonBody(TypeAdapter(Replay), examples.REPLAYS)
_ANSWERS: Final[dict[str, Any]] = command_answers()
_ANSWERS["responses"][200]["model"] = CommandAnswer | TriedReplays

router: Final = routes("/api/deadLetters", "Dead letters")


@router.get("", response_model=LetterPage)
async def list_dead_letters(
    caller: DeadLetterReader,
    services: Injected,
    topic: Annotated[
        Topic | None, any_case(Topic), Query(description="Topic that they came from, without prefix and `.dlq`")
    ] = None,
    code: Annotated[
        DeadLetterCode | None, any_case(DeadLetterCode), Query(description="Code of the reason, like `invalid-message`")
    ] = None,
    state: Annotated[
        LetterState | None, any_case(LetterState), Query(description="`open`: neither replayed nor discarded")
    ] = None,
    take: Annotated[int, Query(ge=1, le=_MOST_TAKEN, description="Maximum number of letters")] = 20,
    after: Annotated[
        Annotated[str, Field(max_length=8_192), usable(ends_in, "invalid_after")] | None,
        EMPTY_IS_MISSING,
        Query(description="The `next` of the previous page"),
    ] = None,
) -> JsonResponse:
    """Dead letters, newest first. A search by code or state may find fewer than `take` and still have a `next`."""
    check_unbound(caller)
    topics = [each for each in CONSUMED if topic in (None, each)]
    with await services.pages.rows(take):
        async with _letters(services).open() as letters:
            search = Search(code, None if state is None else partial(_ids_in_state, services, state))
            page = await letters.newest(topics, take=take, search=search, ends=ends_in(after) if after else None)
        marks = await services.replays.marks([letter.id for letter in page.letters])
        rows = [_row(letter, marks.get(letter.id, UNMARKED)) for letter in page.letters]
        return JsonResponse({"results": rows, "next": ends_text(page.rest) if page.rest else None})


@router.get("/{topic}/{partition}/{offset}", response_model=Letter, responses=problems(ProblemKind.NOT_FOUND))
async def read_dead_letter(
    caller: DeadLetterReader, services: Injected, topic: str, partition: str, offset: str
) -> JsonResponse:
    """One dead letter with its value and headers, and the reason why its consumer would refuse it now."""
    check_unbound(caller)
    reader = _letters(services)
    try:
        place = place_in(f"{topic}/{partition}/{offset}")
    except ValueError:
        raise ProblemError(ProblemKind.NOT_FOUND, _NOT_FOUND) from None
    with await services.pages.piece(_WHOLE_VALUE):
        async with reader.open() as letters:
            letter = await letters.at(place)
        if letter is None:
            raise ProblemError(ProblemKind.NOT_FOUND, _NOT_FOUND)
        preview = preview_of(letter, place, _WHOLE_VALUE)
        marks = await services.replays.marks([preview.id])
        headers = [(name, optional_text_of(value)) for name, value in letter.headers]
        refusal = await _refusal(place.topic, letter.value)
        return JsonResponse({**_row(preview, marks.get(preview.id, UNMARKED)), "headers": headers, "refusal": refusal})


@router.post("/replay", **_ANSWERS)
async def replay_dead_letters(
    caller: DeadLetterReplayer,
    replay: Annotated[Replay, Depends(REPLAY)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Publish letters again to the topics that they came from, each once, or report what would happen. A letter that is
    already replayed is unchanged; one that is refused again becomes a new letter at another place."""
    check_unbound(caller)
    places = list(dict.fromkeys(replay.places))
    if replay.value is not None and len(places) > 1:
        raise invalid_at("/value", "one-place", "`value` repairs a single letter: send one place only")
    if replay.dry_run:
        mended = None if replay.value is None else replay.value.encode()
        return JsonResponse({"results": await _try_replays(services, [place_in(place) for place in places], mended)})
    return await carry_out(services, command, places, _messages(services, caller, command, places, replay.value))


def _messages(
    services: Services, caller: Caller, command: Command, places: list[str], mended: str | None
) -> list[OutgoingMessage]:
    """The commands, one for each letter, in replay order. Raises ProblemError if the value doesn't fit into a
    message."""
    fields = {"value": mended, "moderator": caller.subject}
    value = present(fields) | command.id_field
    topic, kind = Topic.DEAD_LETTER_COMMANDS, "dead-letter.replay"
    ordered = sorted(places, key=lambda place: place_in(place).sort_key)
    messages = [services.message(topic, REPLAYS_KEY, kind, {"place": place, **value}) for place in ordered]
    if any(len(message.value or b"") > MAX_MESSAGE_BYTES for message in messages):
        raise invalid_at("/value", "too-long", _TOO_LARGE)
    return messages


async def _try_replays(services: Services, places: list[LetterPlace], mended: bytes | None) -> list[TriedReplay]:
    """The outcomes that replays would have; one letter at a time is in memory."""
    results: list[TriedReplay] = []
    async with _letters(services).open() as letters:
        for place in places:
            results.append(await _try_replay(services, letters, place, mended))
    return results


async def _try_replay(
    services: Services, letters: OpenedLetters, place: LetterPlace, mended: bytes | None
) -> TriedReplay:
    with await services.pages.piece(_WHOLE_VALUE):
        letter = await letters.at(place)
        if letter is None:
            return {"id": str(place), "outcome": Outcome.NOT_FOUND}
        reason = await obstacle_to_replay(letter, mended, services.replays, services.erasures)
        refusal = await _refusal(place.topic, letter.value if mended is None else mended)
    if reason is None:
        return {"id": str(place), "outcome": Outcome.APPLIED, "refusal": refusal}
    result: TriedReplay = {"id": str(place), "outcome": reason.outcome, "reason": reason.value, "refusal": refusal}
    return {**result, "message": MESSAGES[reason]}


async def _ids_in_state(services: Services, state: LetterState, ids: Sequence[str]) -> set[str]:
    marks = await services.replays.marks(ids)
    return {id for id in ids if marks.get(id, UNMARKED).state is state}


async def _refusal(topic: Topic, value: bytes | None) -> RefusedAgain | None:
    """The reason why the consumer of the topic would dead-letter this value; None if it can read it."""
    error: InvalidMessageError | None = await in_template_thread(refusal_of, value, READERS[topic])
    if error is None:
        return None
    return {"code": error.code, "message": str(error), "errors": [item_error(each) for each in error.errors]}


def _letters(services: Services) -> DeadLetterTopics:
    if services.letters is None:
        raise unavailable("The message broker")
    return services.letters


def _row(letter: LetterPreview, mark: LetterMark) -> LetterRow:
    return {
        "place": str(letter.place),
        "topic": letter.place.topic,
        "partition": letter.place.partition,
        "offset": letter.place.offset,
        "at": timestamp(moment_of(letter.timestamp)),
        "code": letter.code,
        "reason": letter.reason,
        "key": optional_text_of(letter.key),
        "value": optional_text_of(letter.value),
        "valueBytes": letter.value_bytes,
        "state": mark.state,
        "replayed": mark.times,
        "replayedFrom": letter.replayed_from or None,
    }
