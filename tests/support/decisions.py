"""Commands whose wait is over before they take effect, as on a busy machine: what becomes of them all the same."""

import httpx

from .facade import body_of, problem_of
from .service import Json
from .waiting import eventually


async def followed(http: httpx.AsyncClient, response: httpx.Response) -> Json:
    """The answer to a command that was to be waited for, with its results in the order of its ids, once it has been
    decided upon. `http` asks for those, by the credentials that the command was sent with."""
    if response.status_code == 409:
        return problem_of(response, 409)
    if response.status_code == 200:
        return body_of(response, dict)
    accepted = body_of(response, dict, 202)

    async def state() -> Json:
        return body_of(await http.get(f"/api/commands/{accepted['commandId']}"), dict)

    told = await eventually(state, lambda found: found["outcome"] != "accepted")
    results = {result["id"]: result for result in told["results"]}
    return {**accepted, "outcome": told["outcome"], "results": [results[id] for id in accepted["ids"]]}


async def applied(http: httpx.AsyncClient, response: httpx.Response) -> Json:
    """The same of a command that must have taken effect, all of it."""
    answer = await followed(http, response)
    assert {result["outcome"] for result in answer["results"]} <= {"applied", "unchanged"}, answer
    return answer


async def status_of(http: httpx.AsyncClient, response: httpx.Response) -> int:
    """The status of an answer; of one to a command, that of the answer once it has been decided upon."""
    if response.status_code != 202:
        return response.status_code
    return 409 if (await followed(http, response))["outcome"] == "refused" else 200
