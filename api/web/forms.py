"""Forms of the console's pages, read up to a maximum size."""

from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from api.web.problems import ProblemError, ProblemKind

FORMS: Final = "/console/"
"""The prefix of the paths that forms are sent to."""

MAX_FORM_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of a form: it may hold two texts of 1 MiB, in which browsers write each byte that is no letter as
three."""


async def read_form(request: Request, most_bytes: int, most_fields: int) -> FormData:
    """The fields of a form without files. Raises ProblemError if it has more than `most_bytes`, or can't be read."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > most_bytes:
            raise ProblemError(ProblemKind.TOO_LARGE, f"A form may have at most {most_bytes} bytes here.")
        return message

    form = Request(request.scope, received)
    try:
        return await form.form(max_files=0, max_fields=most_fields, max_part_size=most_bytes)
    except HTTPException as error:
        raise _unreadable(error.detail) from error
    except ClientDisconnect as gone:
        raise _unreadable("The connection ended before the form did.") from gone


def _unreadable(why: str) -> ProblemError:
    return ProblemError(ProblemKind.MALFORMED_BODY, f"The form can't be read. {why}")
