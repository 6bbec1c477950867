"""Final responses to commands that take effect only after their wait, as on a busy machine."""

import httpx

from .facade import body_of, problem_of
from .service import Json
from .waiting import eventually


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
