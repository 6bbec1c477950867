"""Mail templates, and the choice of the template for a mail."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

TemplateScope = tuple[str | None, str | None]
"""The scope of a template: a store (None: all stores) and a language (None: all languages)."""


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """The source of a mail: its subject, and the same content as text and as HTML."""

    subject: str
    text: str
    html: str


def template_id(name: str, store_id: str | None, language: str | None) -> str:
    """The id of a template: its name and scope, as in the URL of the template."""
    scope = {"storeId": store_id, "languageCode": canonical_language(language)}
    query = urlencode({field: value for field, value in scope.items() if value})
    return f"{name}?{query}" if query else name


def canonical_language(code: str | None) -> str | None:
    """A language code in the letter case of ids, "de-AT" for "DE_at"; None for none. Stored ids have extensions in it,
    too ("en-x-AB"), unlike those of `language_tag`."""
    if not code:
        return None
    language, *rest = code.replace("_", "-").split("-")
    return "-".join([language.lower(), *(_subtag(part) for part in rest)])


def _subtag(part: str) -> str:
    match len(part):
        case 2:
            return part.upper()
        case 4:
            return part.title()
        case _:
            return part.lower()


def fallbacks(store_id: str | None, language: str | None) -> Iterator[TemplateScope]:
    """The scopes in which to look for a template, best first.

    The store in that language, in its base language ("de" for "de-AT"), in any; then the same for all stores.
    """
    code = canonical_language(language)
    for store in [store_id, None] if store_id else [None]:
        wanted = code
        while wanted:
            yield store, wanted
            wanted = wanted.rpartition("-")[0]
        yield store, None


def by_preference(
    templates: Mapping[TemplateScope, MailTemplate], store_id: str | None, language: str | None
) -> Iterator[tuple[TemplateScope, MailTemplate]]:
    """The templates for a mail of that store in that language with their scopes, best first.

    The languages of `templates` are canonical.
    """
    for scope in fallbacks(store_id, language):
        if (found := templates.get(scope)) is not None:
            yield scope, found
