"""Messages about sessions of the console."""

from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from messaging.schemas import ClosedMessage, Id


class EndedSession(ClosedMessage):
    """A person signed out: the session gives no access any more, not even to a copy of its cookie."""

    session_id: Annotated[Id, Field(description="Session id, as sealed in the cookie")]


ENDED_SESSION: Final[TypeAdapter[EndedSession]] = TypeAdapter(EndedSession)
