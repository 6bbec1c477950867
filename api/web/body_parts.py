"""Reading of a request's body up to a maximum size, for all kinds of bodies."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect, Request

from api.web.concurrency import limit_body
from api.web.problems import ProblemError, ProblemKind

_PLAIN: Final = "identity"


async def body_parts(
    request: Request, most_bytes: int, *, too_large: ProblemError, cut_off: ProblemError
) -> AsyncIterator[bytes]:
    """The parts of the body, in order. Raises ProblemError if it is compressed; `too_large` for more than `most_bytes`,
    if they are announced before any memory is reserved; `cut_off` if the connection ends before the body; NoRoomError.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 19 or int(announced) > most_bytes):
        raise too_large
    limit_body(request.scope, most_bytes)
    is_plain = request.headers.get("content-encoding", "").strip().lower() in ("", _PLAIN)
    size = 0
    try:
        async for part in request.stream():
            if part and not is_plain:
                plain = {"Accept-Encoding": _PLAIN}
                raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, "Send the body uncompressed.", headers=plain)
            size += len(part)
            if size > most_bytes:
                raise too_large
            yield part
    except ClientDisconnect as gone:
        raise cut_off from gone
