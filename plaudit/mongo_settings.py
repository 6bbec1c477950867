"""The connection to MongoDB, as it is configured."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr


def _not_of_mongodb(name: str) -> str:
    if name.lower() in ("admin", "config", "local"):
        raise ValueError("MongoDB keeps its own things there, and tells no changes of them: choose another name")
    return name


class MongoSettings(BaseModel):
    """The connection to MongoDB."""

    uri: SecretStr | None = None
    database: Annotated[str, AfterValidator(_not_of_mongodb), Field(description="The name of the database")] = "plaudit"
    timeout: Annotated[float, Field(gt=0, description="Seconds to find a usable server")] = 2.0
