"""Mail templates: the list, and an editor with a preview in a separate frame."""

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from console.api_client import Refused
from console.content_hashes import check_seen, content_hash
from console.fields import Form
from console.screens import ROWS, Screens
from console.templating import address
from console.visits import FRAME_POLICY, Visit, key_of
from domain.permissions import Permission
from messaging.templates.rendering import BUILT_IN

PATH: Final = "/console/templates"
PARTS: Final = ("subject", "text", "html")

_CONFLICT: Final = (
    "Somebody else has changed this template in the meantime. Their version is below each field that "
    "differs: save again to replace it."
)
_LINE: Final = re.compile(r"Line (\d+): ")

screens = Screens()


@screens.get("/templates", Permission.READ_TEMPLATES)
async def templates(visit: Visit) -> Response:
    """The built-in templates, and those saved for stores and languages, by id."""
    query = {"after": visit.query.get("after"), "take": ROWS + 1}
    found = await visit.facade.ask("GET", "/api/notificationTemplates", query=query)
    saved = [each["id"] for each in found if each["id"] is not None]
    has_more = len(saved) > ROWS
    return visit.page(
        "mail_templates.html",
        templates=found[:-1] if has_more else found,
        names=list(BUILT_IN),
        next=saved[ROWS - 1] if has_more else None,
    )


@screens.get("/templates/{name}", Permission.READ_TEMPLATES)
async def template(visit: Visit) -> Response:
    """The editor, with the template in effect for a store and a language."""
    return await _editor(visit)


@screens.post("/templates/{name}", Permission.READ_TEMPLATES, Permission.UPDATE_TEMPLATES)
async def change_template(visit: Visit) -> Response:
    """Save a template for a store and a language, or delete it, so that the next best one applies."""
    form, api = await visit.form(), _api(visit)
    here = address(f"{PATH}/{visit.segment('name')}", visit.query)
    if form.get("step") == "delete":
        return await _remove(visit, form, here)
    given = {part: form.get(part, "") for part in PARTS}
    try:
        # Nobody overwrites a version that their form didn't show.
        now = await visit.facade.ask("GET", api, query=_scope(visit))
        if _is_here(visit, now) and given == {part: now[part] for part in PARTS}:
            # Also true for a form that is sent twice.
            return visit.back(here, "saved")
        if form.get("seen") != _seen(now):
            refused = Refused(409, {"detail": _CONFLICT})
            return await _editor(visit, given, refused)
        answer = await visit.facade.command("PUT", api, given, query=_scope(visit), key=key_of(form))
    except Refused as refused:
        if refused.status == 401:
            raise
        return await _editor(visit, given, refused)
    return visit.after(answer, here, "saved")


async def _remove(visit: Visit, form: Form, here: str) -> Response:
    """Delete the template saved here if it is still as the page showed it; the next best one then applies."""
    api = _api(visit)
    try:
        now = await visit.facade.ask("GET", api, query=_scope(visit))
        check_seen(form, _seen(now), "this template", is_done=not _is_here(visit, now))
        answer = await visit.facade.command("DELETE", api, query=_scope(visit), key=key_of(form))
    except Refused as refused:
        if refused.status != 409:
            raise
        return await _editor(visit, refused=refused)
    return visit.after(answer, here, "removed")


@screens.get("/templates/{name}/preview", Permission.READ_TEMPLATES)
async def preview(visit: Visit) -> Response:
    """The mail rendered from the template in effect with sample data."""
    return await _rendered(visit, None, "html")


@screens.post("/templates/{name}/preview", Permission.READ_TEMPLATES)
async def preview_typed(visit: Visit) -> Response:
    """The mail rendered from the submitted template with sample data. Nothing is saved."""
    form = await visit.form()
    return await _rendered(visit, {part: form.get(part, "") for part in PARTS}, form.get("step", ""))


async def _rendered(visit: Visit, given: Mapping[str, str] | None, shown: str) -> Response:
    try:
        mail = await visit.facade.ask("POST", f"{_api(visit)}/preview", given, _scope(visit))
    except Refused as refused:
        return visit.problem_in_frame(refused, _errors(refused, given or {}))
    headers = {"Content-Security-Policy": FRAME_POLICY}
    if shown == "text":
        return PlainTextResponse(f"Subject: {mail['subject']}\n\n{mail['text']}", headers=headers)
    return HTMLResponse(mail["html"], headers=headers)


async def _editor(visit: Visit, given: Mapping[str, str] | None = None, refused: Refused | None = None) -> Response:
    found = await visit.facade.ask("GET", _api(visit), query=_scope(visit))
    return visit.page(
        "mail_template.html",
        found=found,
        given=given or found,
        seen=_seen(found),
        is_here=_is_here(visit, found),
        errors=_errors(refused, given or {}) if refused else {},
        refused=refused,
        theirs=refused is not None and refused.status == 409,
        here=address(f"{PATH}/{visit.segment('name')}", _address_scope(visit)),
        frame=address(f"{PATH}/{visit.segment('name')}/preview", _address_scope(visit)),
    )


def _api(visit: Visit) -> str:
    return f"/api/notificationTemplates/{visit.segment('name')}"


def _scope(visit: Visit) -> dict[str, str | None]:
    return {"storeId": visit.query.get("store"), "languageCode": visit.query.get("language")}


def _address_scope(visit: Visit) -> dict[str, str | None]:
    return {name: visit.query.get(name) for name in ("store", "language")}


def _is_here(visit: Visit, found: Mapping[str, Any]) -> bool:
    """True if the template in effect was saved for exactly this store and language."""
    store, language = visit.query.get("store"), visit.query.get("language")
    same_language = (found["languageCode"] or "").lower() == (language or "").replace("_", "-").lower()
    return found["source"] != "built-in" and found["storeId"] == store and same_language


def _seen(found: Mapping[str, Any]) -> str:
    """The hash of the template in effect, which changes with it."""
    return content_hash(*(found[name] for name in ("source", *PARTS)))


def _errors(refused: Refused, given: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The first error of each part, with the number and text of its line."""
    errors: dict[str, dict[str, Any]] = {}
    for error in refused.errors:
        part, message = error["pointer"].strip("/"), error["message"]
        line = _LINE.match(message)
        lines = given.get(part, "").splitlines()
        number = int(line[1]) if line else None
        source = lines[number - 1] if number and number <= len(lines) else None
        errors.setdefault(part, {"message": message, "line": number, "source": source})
    return errors
