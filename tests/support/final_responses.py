"""Final responses: on a busy machine the service may first ask to retry, or report that a command has no effect yet."""

from collections.abc import Awaitable, Callable

import httpx

from .facade import body_of, problem_of
from .service import Json
from .waiting import eventually

Send = Callable[[], Awaitable[httpx.Response]]


async def follow(http: httpx.AsyncClient, response: httpx.Response) -> Json:
    """The response to a command, with results in the order of its ids, once it has its outcome.

    `http` must have the credentials that the command was sent with.
    """
    if response.status_code == 409:
        return problem_of(response, 409)
    if response.status_code == 200:
        return body_of(response, dict)
    accepted = body_of(response, dict, 202)

    async def state() -> Json:
        return body_of(await http.get(f"/api/commands/{accepted['commandId']}"), dict)

    command = await eventually(state, lambda found: found["outcome"] != "accepted")
    results = {result["id"]: result for result in command["results"]}
    return {**accepted, "outcome": command["outcome"], "results": [results[id] for id in accepted["ids"]]}


async def follow_applied(http: httpx.AsyncClient, response: httpx.Response) -> Json:
    """The same as `follow` for a command that must have been applied completely."""
    answer = await follow(http, response)
    assert {result["outcome"] for result in answer["results"]} <= {"applied", "unchanged"}, answer
    return answer


async def final_status(http: httpx.AsyncClient, response: httpx.Response) -> int:
    """The final status of a response: for a 202 that of the command's outcome, 200 or 409."""
    if response.status_code != 202:
        return response.status_code
    return 409 if (await follow(http, response))["outcome"] == "refused" else 200


async def retry_until_served(send: Send) -> httpx.Response:
    """The response to a request that is repeated while the database is too slow; such a refused request has no effect.

    A facade gives the database a second to look up a store's rules, and a few seconds to answer a query.
    """
    return await eventually(send, lambda answer: not _is_refused_by_database(answer))


async def retry_until_decided(send: Send) -> httpx.Response:
    """The response to a command that is waited for, repeated with its `Idempotency-Key` until it has its outcome."""
    return await eventually(send, lambda answer: answer.status_code != 202 and not _is_refused_by_database(answer))


async def resend_until_settled(send: Send) -> httpx.Response:
    """The response to a console form, sent again with its key until its command has its outcome.

    A page waits for a few seconds, then reports that the command is accepted.
    """

    def is_settled(answer: httpx.Response) -> bool:
        location = answer.headers.get("location", "")
        return not any(accepted in location for accepted in ("done=accepted", "n-accepted="))

    return await eventually(send, is_settled)


def _is_refused_by_database(answer: httpx.Response) -> bool:
    if answer.status_code != 503 or answer.headers.get("content-type") != "application/problem+json":
        return False
    return str(answer.json()["detail"]).startswith(("The database ", "MongoDB, which holds the rules of the store,"))
