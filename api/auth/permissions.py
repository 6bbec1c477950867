"""Permissions in the signatures of endpoints: dependencies that identify the caller and check what it may do."""

from contextlib import nullcontext
from typing import Annotated, Any, Final

import structlog
from fastapi import Depends, Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase

from api.auth.authentication import Authenticator, KeysAwayError, RefusedCredentialError
from api.web.bodies import check_no_body, has_body
from api.web.concurrency import outside
from api.web.limits import RateLimit, network_of
from api.web.problems import ProblemError, ProblemKind, unavailable
from api.web.queries import check_query
from domain.permissions import STRANGER, Caller, Permission

_BEARER: Final = "bearer "
_DESCRIPTION: Final = (
    "A token, or an API key. The listed names are the required permissions. A credential that is bound to "
    "stores can read and change only those. Not required if `PLAUDIT_AUTH__MODE` is `none`."
)


async def identified(request: Request, credential: str | None) -> Caller:
    """The owner of a request's credential. Raises ProblemError: 401 invalid, 429 too many requests, 503 it can't be
    checked."""
    authenticator: Authenticator = request.app.state.services.authenticator
    rate_limit: RateLimit = request.app.state.rate_limit
    address = client_address(request)
    # Counted as a guess before the look-up, and refunded if the key is valid.
    is_guess = authenticator.would_look_up(credential)
    if is_guess:
        rate_limit.take(address)
    try:
        with outside(request.scope) if authenticator.asks_issuer else nullcontext():
            caller = await authenticator.caller(credential)
    except RefusedCredentialError as error:
        if not is_guess:
            rate_limit.take(address)
        headers = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(ProblemKind.UNAUTHENTICATED, str(error), headers=headers) from error
    except KeysAwayError as error:
        raise unavailable("The issuer of the token") from error
    if is_guess:
        rate_limit.give_back(address)
    rate_limit.take(client_name(request, caller.subject))
    if caller.subject is not None:
        structlog.contextvars.bind_contextvars(subject=caller.subject)
    return caller


class _Guard(SecurityBase):
    """Identifies the caller, and refuses one that has neither the permissions of the endpoint nor `instead`."""

    def __init__(self, instead: Permission | None = None) -> None:
        self._instead = instead
        self.model = HTTPBearer(description=_DESCRIPTION)
        self.scheme_name = "permissions"

    async def __call__(self, request: Request, scopes: SecurityScopes) -> Caller:
        """The caller. Raises ProblemError: 401 invalid credential, 403 missing permission, 429 too many requests, 503
        the credential can't be checked, 422 unusable parameters in the query, or a `GET` with a body."""
        caller = await identified(request, _credential(request))
        missing = [name for name in scopes.scopes if not caller.may(Permission(name))]
        if missing and not (self._instead and caller.may(self._instead)):
            raise forbidden(f"This needs the permission {' and '.join(missing)}.")
        request.state.caller = caller
        await check_understood(request)
        return caller


class _OptionalGuard(_Guard):
    """Identifies the caller; one without a credential is let in without any permission."""

    async def __call__(self, request: Request, scopes: SecurityScopes) -> Caller:
        """The caller. Raises ProblemError as GUARD does, also for an invalid credential."""
        authenticator: Authenticator = request.app.state.services.authenticator
        if _credential(request) is not None or authenticator.mode == "none":
            return await super().__call__(request, scopes)
        request.app.state.rate_limit.take(client_address(request))
        await check_understood(request)
        return STRANGER


GUARD: Final = _Guard()
_GUARD_OF_EDITS: Final = _Guard(instead=Permission.MODERATE_REVIEWS)


def needs(*permissions: Permission) -> Any:
    """A dependency: the caller, which must have these permissions."""
    return Security(GUARD, scopes=[permission.value for permission in permissions])


def forbidden(detail: str) -> ProblemError:
    """The problem of a request that its caller may not make."""
    return ProblemError(ProblemKind.FORBIDDEN, detail)


def client_address(request: Request) -> str:
    """The key under which requests without a subject are rate-limited: the client's address."""
    return f"address {network_of(request)}"


def client_name(request: Request, subject: str | None) -> str:
    """The client as its requests, waits and streams are counted: by its subject, else by its address."""
    return client_address(request) if subject is None else f"subject {subject}"


async def check_understood(request: Request) -> None:
    """Raise ProblemError for unusable parameters in the query, and for a `GET` with a body."""
    check_query(request.scope)
    if request.method == "GET" and has_body(request.scope):
        await check_no_body(request)


async def _client(request: Request) -> str:
    """The client of a request whose caller is known."""
    return client_name(request, request.state.caller.subject)


def _credential(request: Request) -> str | None:
    """The credential in the request's headers, or None."""
    authenticator: Authenticator = request.app.state.services.authenticator
    # In other modes this header may be meant for a gateway in between.
    if authenticator.mode == "api_key" and (key := request.headers.get("x-api-key")):
        return key
    authorization = request.headers.get("authorization", "")
    return authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else None


Client = Annotated[str, Depends(_client)]
"""The name of the client, by which slots are counted; after the parameter with the caller."""
Visitor = Annotated[Caller, Security(_OptionalGuard())]
"""Anyone: for an endpoint that is open to all, and shows some callers more."""
AnyCaller = Annotated[Caller, needs()]
ReviewReader = Annotated[Caller, needs(Permission.READ_REVIEWS)]
ReviewAuthor = Annotated[Caller, needs(Permission.CREATE_REVIEWS)]
ReviewWriter = Annotated[Caller, Security(_GUARD_OF_EDITS, scopes=[Permission.CREATE_REVIEWS.value])]
"""A caller that may submit reviews, or only edit stored ones: the endpoint must check."""
Moderator = Annotated[Caller, needs(Permission.MODERATE_REVIEWS)]
ReviewDeleter = Annotated[Caller, needs(Permission.DELETE_REVIEWS)]
Replier = Annotated[Caller, needs(Permission.REPLY_TO_REVIEWS)]
Voter = Annotated[Caller, needs(Permission.VOTE_ON_REVIEWS)]
Reporter = Annotated[Caller, needs(Permission.REPORT_REVIEWS)]
RatingReader = Annotated[Caller, needs(Permission.READ_RATINGS)]
RatingCalculator = Annotated[Caller, needs(Permission.RECALCULATE_RATINGS)]
ReturnReader = Annotated[Caller, needs(Permission.READ_RETURNS)]
ReturnAuthor = Annotated[Caller, needs(Permission.CREATE_RETURNS)]
ReturnEditor = Annotated[Caller, needs(Permission.UPDATE_RETURNS)]
ReturnDeleter = Annotated[Caller, needs(Permission.DELETE_RETURNS)]
SettingsReader = Annotated[Caller, needs(Permission.READ_SETTINGS)]
SettingsEditor = Annotated[Caller, needs(Permission.UPDATE_SETTINGS)]
TemplateReader = Annotated[Caller, needs(Permission.READ_TEMPLATES)]
TemplateEditor = Annotated[Caller, needs(Permission.UPDATE_TEMPLATES)]
MetricsReader = Annotated[Caller, needs(Permission.READ_METRICS)]
AuditReader = Annotated[Caller, needs(Permission.READ_AUDIT)]
KeyReader = Annotated[Caller, needs(Permission.READ_KEYS)]
DeadLetterReader = Annotated[Caller, needs(Permission.READ_DEAD_LETTERS)]
DeadLetterReplayer = Annotated[Caller, needs(Permission.REPLAY_DEAD_LETTERS)]
