"""The sign-in page."""

from starlette.requests import Request
from starlette.responses import Response

from api.web.problems import ProblemError, ProblemKind
from console.api_client import ApiClient
from console.sign_in.guard import way_back
from console.visits import Visit
from domain.permissions import STRANGER

_OPENS_NOTHING = "You are signed in, but have no access to any page here."


def sign_in_page(
    request: Request, mode: str, back: str | None, problem: ProblemError | None = None, *, offers: bool = True
) -> Response:
    """The sign-in page of an authentication mode; `back` is the page to return to.

    A problem sets the status and the error message. `offers` is False if trying again is of no use.
    """
    visit = Visit(request, ApiClient(request, None, ("", 0)), STRANGER, is_open=False)
    status, error, headers = 200, "", {}
    if problem is not None:
        is_token = mode == "jwt" and problem.kind is ProblemKind.UNAUTHENTICATED
        status, error = problem.kind.status, f"{_OPENS_NOTHING} {problem.detail}" if is_token else problem.detail
        headers = {name: value for name, value in problem.headers.items() if name == "Retry-After"}
    page = visit.page("sign_in.html", status=status, mode=mode, to=way_back(back), error=error, offers=offers)
    page.headers.update(headers)
    return page
