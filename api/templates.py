"""Endpoints of notification templates."""

from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response
from typing_extensions import TypedDict

from api import examples
from api.auth.permissions import TemplateEditor, TemplateReader
from api.commands import Command, Commanded, carry_out, command_answers
from api.services import Injected, Services
from api.stores.bounds import by, check_store
from api.web.bodies import JsonBody, parse_json
from api.web.openapi import problems
from api.web.paging import MAX_TAKE, After
from api.web.problems import ProblemError, ProblemKind, invalid_at
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.delivery import OutgoingMessage
from domain.permissions import Caller
from domain.stores import GENERAL
from domain.templates import MailTemplate, TemplateScope, by_preference, template_id
from messaging.reading import Read
from messaging.schemas import OptionalId
from messaging.templates.messages import TEMPLATE_FIELDS, Language, TemplateFields
from messaging.templates.order_review_request import SAMPLE_CONTEXT, store_context
from messaging.templates.rendering import BUILT_IN, TemplateError, in_template_thread, render
from messaging.topics import Topic
from storage.templates import TemplateSearch


class ShownTemplate(TypedDict):
    """A template and its source. `storeId` and `languageCode` are null for all stores and languages, `id` for the
    built-in one."""

    id: str | None
    name: str
    source: Literal["built-in", "all-stores", "store"]
    storeId: str | None
    languageCode: str | None
    subject: str
    text: str
    html: str


class ShownMail(TypedDict):
    """A template rendered with sample data."""

    subject: str
    text: str
    html: str


async def _known_name(name: Annotated[str, Path()]) -> str:
    if name not in BUILT_IN:
        raise ProblemError(ProblemKind.NOT_FOUND, f"There is no such template. Available: {', '.join(BUILT_IN)}.")
    return name


def _not_empty(meaning: str) -> BeforeValidator:
    """Refuses an empty parameter: an unset variable of a script must not write what a missing one means."""

    def check(value: object) -> object:
        if value == "":
            message = "Must not be empty; left out, it means {meaning}"
            raise PydanticCustomError("empty", message, {"meaning": meaning})
        return value

    return BeforeValidator(check)


_STORE: Final = Query(alias="storeId", description="Missing: all stores")
_LANGUAGE: Final = Query(alias="languageCode", description="Missing: all languages without a template of their own")


async def _scope(
    store_id: Annotated[OptionalId, _STORE] = None, language: Annotated[Language, _LANGUAGE] = None
) -> TemplateScope:
    return store_id, language


async def _written_scope(
    store_id: Annotated[OptionalId, _not_empty("all stores"), _STORE] = None,
    language: Annotated[Language, _not_empty("all languages"), _LANGUAGE] = None,
) -> TemplateScope:
    return store_id, language


class Fields(JsonBody[TemplateFields]):
    """A dependency that reads parts of a template, in a thread."""

    def __init__(self, *, required: bool) -> None:
        super().__init__(TEMPLATE_FIELDS, {"Another subject line": examples.TEMPLATE}, required=required)

    async def read(self, body: bytes) -> Read[TemplateFields]:
        """The parts in the body. Raises ProblemError."""
        return Read(await in_template_thread(parse_json, TEMPLATE_FIELDS, body))


Name = Annotated[str, Depends(_known_name)]
At = Annotated[TemplateScope, Depends(_scope)]
WrittenAt = Annotated[TemplateScope, Depends(_written_scope)]

router: Final = routes("/api/notificationTemplates", "Notification templates")


@router.get("", response_model=list[ShownTemplate])
async def list_templates(
    caller: TemplateReader,
    services: Injected,
    take: Annotated[
        int | None, Query(ge=1, le=MAX_TAKE, description="Maximum number of saved templates; missing: all")
    ] = None,
    after: Annotated[After, Query(description="Id of the last template of the previous page")] = None,
) -> JsonResponse:
    """The built-in templates, and all saved ones by id, or a page of these: the built-in ones are on the first."""
    built_in = [] if after else [_row(name, None, template) for name, template in BUILT_IN.items()]
    search = TemplateSearch(caller.stores, after, take)
    with await services.pages.piece(await services.templates.size(search)):
        saved = await services.templates.page(search)
        return JsonResponse([*built_in, *(_row(each.name, each.scope, each.template) for each in saved)])


@router.get("/{name}", response_model=ShownTemplate, responses=problems(ProblemKind.NOT_FOUND))
async def read_template(caller: TemplateReader, name: Name, scope: At, services: Injected) -> JsonResponse:
    """The template in effect for mails of a store in a language.

    The store's own takes precedence: in the language, in its base language, in any; then the same for all stores; then
    the built-in one.
    """
    _check_readable(caller, scope)
    return JsonResponse(_row(name, *await _effective(services, name, scope)))


@router.put("/{name}", **command_answers(ProblemKind.NOT_FOUND))
async def change_template(
    caller: TemplateEditor,
    name: Name,
    scope: WrittenAt,
    fields: Annotated[TemplateFields, Depends(Fields(required=True))],
    command: Commanded,
    services: Injected,
) -> Response:
    """Save a template for a store or all, in a language or all. An omitted part stays as it is in effect there."""
    check_store(caller, scope[0])
    given = fields.model_dump(mode="json", by_alias=True, exclude_none=True)
    message = _message(services, caller, command, "notification-template.update", name, scope, given)
    return await carry_out(services, command, [template_id(name, *scope)], [message])


@router.delete("/{name}", **command_answers(ProblemKind.NOT_FOUND))
async def delete_template(
    caller: TemplateEditor, name: Name, scope: WrittenAt, command: Commanded, services: Injected
) -> Response:
    """Delete the template saved for exactly this store and language; the next in order of precedence takes its
    place."""
    check_store(caller, scope[0])
    message = _message(services, caller, command, "notification-template.delete", name, scope, {"deleted": True})
    return await carry_out(services, command, [template_id(name, *scope)], [message])


@router.post("/{name}/preview", response_model=ShownMail, responses=problems(ProblemKind.NOT_FOUND))
async def preview_template(
    caller: TemplateReader,
    name: Name,
    scope: At,
    fields: Annotated[TemplateFields | None, Depends(Fields(required=False))],
    services: Injected,
) -> JsonResponse:
    """Render a mail with sample data, from the template in effect with the changes of the body."""
    _check_readable(caller, scope)
    _, template = await _effective(services, name, scope)
    if fields:
        template = fields.merged_into(template)
    try:
        mail = await in_template_thread(render, template, await _sample(services, scope))
    except TemplateError as error:
        message = f"Line {error.line}: {error.reason}"
        raise invalid_at(f"/{error.part}", "invalid-template", message) from error
    return JsonResponse({"subject": mail.subject, "text": mail.text, "html": mail.html})


def _check_readable(caller: Caller, scope: TemplateScope) -> None:
    """Raise ProblemError if the template is that of another store; those of all stores are open to everyone."""
    if scope[0] is not None:
        check_store(caller, scope[0])


async def _effective(services: Services, name: str, scope: TemplateScope) -> tuple[TemplateScope | None, MailTemplate]:
    """The scope and the template in effect; the built-in one has no scope (None)."""
    saved = await services.templates.whole(name, *scope)
    return next(by_preference(saved, *scope), (None, BUILT_IN[name]))


async def _sample(services: Services, scope: TemplateScope) -> dict[str, Any]:
    store_id, language = scope
    sample = {**SAMPLE_CONTEXT, "languageCode": language or SAMPLE_CONTEXT["languageCode"]}
    if not store_id:
        return sample
    store = await services.stores.get(store_id)
    name, email = (store.name, store.email) if store else (None, None)
    return {**sample, "store": store_context(store_id, name, email)}


def _message(
    services: Services,
    caller: Caller,
    command: Command,
    kind: str,
    name: str,
    scope: TemplateScope,
    given: dict[str, Any],
) -> OutgoingMessage:
    store_id, language = scope
    value = {"notificationTemplate": {"name": name, "storeId": store_id, "languageCode": language, **given}}
    return services.message(Topic.STORE_UPDATES, store_id or GENERAL, kind, {**value, **by(caller), **command.id_field})


def _row(name: str, scope: TemplateScope | None, template: MailTemplate) -> ShownTemplate:
    store_id, language = scope or (None, None)
    return {
        "id": None if scope is None else template_id(name, *scope),
        "name": name,
        "source": "built-in" if scope is None else "store" if store_id else "all-stores",
        "storeId": store_id,
        "languageCode": language,
        "subject": template.subject,
        "text": template.text,
        "html": template.html,
    }
