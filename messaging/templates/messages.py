"""Messages about notification templates."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter
from pydantic_core import PydanticCustomError

from domain.templates import MailTemplate, canonical_language
from messaging.schemas import LANGUAGE_PATTERN, ClosedMessage, Name, OptionalId, PartialMessage
from messaging.templates.language import MAX_SOURCE_BYTES
from messaging.templates.rendering import BUILT_IN, PARTS, Part, TemplateError, check_part


def _check_usable(part: Part) -> Callable[[str], str]:
    def usable(source: str) -> str:
        try:
            check_part(part, source)
        except TemplateError as error:
            reason = {"line": error.line, "reason": error.reason}
            raise PydanticCustomError("invalid_template", "Line {line}: {reason}", reason) from error
        return source

    return usable


def _check_known(name: str) -> str:
    if name not in BUILT_IN:
        message = "There is no template with this name. Use one of: {known}"
        raise PydanticCustomError("unknown_template", message, {"known": ", ".join(BUILT_IN)})
    return name


_Source = Annotated[str, StringConstraints(max_length=MAX_SOURCE_BYTES)]
Language = Annotated[
    Annotated[str, StringConstraints(max_length=35, pattern=LANGUAGE_PATTERN)] | None,
    AfterValidator(canonical_language),
]


class TemplateFields(PartialMessage):
    """A template by parts. An omitted part is that of the template in effect here, else of a more general one."""

    subject: Annotated[_Source, AfterValidator(_check_usable("subject"))] | None = None
    text: Annotated[_Source, AfterValidator(_check_usable("text"))] | None = None
    html: Annotated[_Source, AfterValidator(_check_usable("html"))] | None = None

    def merged_into(self, template: MailTemplate) -> MailTemplate:
        """The template with these parts instead of its own."""
        return replace(template, **{part: text for part in PARTS if (text := getattr(self, part)) is not None})


class NamedTemplate(TemplateFields):
    """A template, saved or deleted for one store or all, in one language or all."""

    name: Annotated[str, AfterValidator(_check_known)]
    store_id: Annotated[OptionalId, Field(description="null: all stores")] = None
    language_code: Annotated[Language, Field(description="null: all languages without a template of their own")] = None
    deleted: bool = False


class NotificationTemplateUpdate(ClosedMessage):
    """A notification template that is saved or deleted."""

    notification_template: NamedTemplate
    user: Annotated[Name | None, Field(description="The caller, for the audit log")] = None
    command_id: OptionalId = None


TEMPLATE_FIELDS: TypeAdapter[TemplateFields] = TypeAdapter(TemplateFields)
