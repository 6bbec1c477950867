"""The general settings, and the steps of any change of settings: a form, a page of the changes, a command."""

import json
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from api.stores.routes import SETTINGS_FIELDS
from api.web.problems import ProblemError
from console.api_client import Refused, refusal_by
from console.fields import Form, loaded_in
from console.screens import Screens
from console.settings_fields import GENERAL, Change, Configured, Field, Kind, changes, nested, shown, typed, value_at
from console.visits import Visit, key_of
from domain.permissions import Permission
from domain.ratings import RatingMethod

PATH: Final = "/console/settings"
METHODS: Final = [(RatingMethod.AVERAGE.value, "average"), (RatingMethod.WILSON.value, "lower bound (Wilson)")]

_FIELDS: Final = (
    Field("ratingCalculationMethod", "Ratings", Kind.CHOICE, choices=METHODS),
    Field("returnNumberTemplate", "Template of return numbers", hint="Must contain {date:…} and {sequence:…}"),
    Field("returnStatuses", "Return statuses", Kind.LINES, hint="One per line, including New and Canceled"),
    Field("reminder.enabled", "Ask customers for reviews by mail", Kind.CHECK),
    Field("reminder.cron", "Schedule of reminders", hint="A cron expression, in UTC"),
    Field("reminder.orderStatus", "Order status in which customers are asked"),
    Field("reminder.daysInStatus", "Days in that status before a reminder", Kind.NUMBER),
    Field(
        "reminder.maxAgeDays",
        "Days after which no reminder is sent",
        Kind.NUMBER,
        hint="In addition to the days in the status",
    ),
    Field("reminder.maxEmailsPerCustomer", "Maximum number of mails per customer", Kind.NUMBER),
    Field("reminder.limitPeriodDays", "Within this many days", Kind.NUMBER, hint="Empty: without end"),
)

screens = Screens()


@screens.get("/settings", Permission.READ_SETTINGS)
async def settings(visit: Visit) -> Response:
    """The settings that apply to all stores."""
    return form_page(visit, await _general(visit))


@screens.post("/settings", Permission.READ_SETTINGS, Permission.UPDATE_SETTINGS)
async def change_settings(visit: Visit) -> Response:
    """Show the changes, or save them."""
    return await change(visit, await _general(visit))


async def _general(visit: Visit) -> Configured:
    document = await visit.facade.ask("GET", "/api/settings")
    return Configured("General settings", _FIELDS, "/api/settings", SETTINGS_FIELDS, PATH, GENERAL, document)


def form_page(
    visit: Visit, configured: Configured, *, form: Form | None = None, refused: Refused | None = None
) -> Response:
    """The form, with the submitted values if there are any."""
    given = typed(form, configured.fields) if form else None
    loaded = loaded_in(form) if form else {}
    now = {each.name: value_at(configured.document, each.name) for each in configured.fields}
    return visit.page(
        "settings.html",
        configured=configured,
        rows=shown(configured, given, refused),
        loaded=json.dumps({**now, **loaded}),
        refused=refused,
        labels={each.name: each.label for each in configured.fields},
    )


async def change(visit: Visit, configured: Configured) -> Response:
    """The response to a submitted form: the page of its changes, the form again, or a redirect once they are saved."""
    form = await visit.form()
    if form.get("step") == "edit":
        return form_page(visit, configured, form=form)
    is_save = form.get("step") == "save"
    changed = changes(configured, loaded_in(form), typed(form, configured.fields))
    # Also true for a form that is sent twice.
    if is_save and not changed:
        return visit.back(configured.path, "saved")
    body = nested({each.field.name: each.after for each in changed})
    try:
        # What the API would refuse isn't shown as a change that can be saved.
        await configured.body.read(json.dumps(body).encode())
    except ProblemError as problem:
        return form_page(visit, configured, form=form, refused=refusal_by(problem))
    # Only values that the page of changes has shown are overwritten.
    if not is_save or any(each.is_conflict for each in changed):
        return _changes_page(visit, configured, form, changed, status=409 if is_save else 200)
    try:
        answer = await visit.facade.command("PUT", configured.api, body, key=key_of(form))
    except Refused as refused:
        if refused.status == 401:
            raise
        return form_page(visit, configured, form=form, refused=refused)
    return visit.after(answer, configured.path, "saved")


def _changes_page(
    visit: Visit, configured: Configured, form: Form, changed: Sequence[Change], *, status: int
) -> Response:
    """The changes, and the form that saves them: its `loaded` values are those that this page shows."""
    return visit.page(
        "settings_changes.html",
        status=status,
        configured=configured,
        changes=changed,
        typed=[(name, text) for name, text in form.multi_items() if name not in ("key", "step", "loaded")],
        loaded=json.dumps({**loaded_in(form), **{each.field.name: each.before for each in changed}}),
    )
