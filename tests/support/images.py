"""Images to upload, and requests about them."""

from dataclasses import dataclass
from io import BytesIO
from random import Random
from typing import Any

import httpx
from PIL import Image

from .facade import REVIEWS, WAIT, Facade
from .service import Json

IMAGES = "/api/images"
AS_FILE = {"Content-Type": "application/octet-stream"}


def picture(size: tuple[int, int] = (40, 30), kind: str = "PNG", colour: str = "red", **options: Any) -> bytes:
    """An image file of this format and size."""
    out = BytesIO()
    Image.new("RGB", size, colour).save(out, kind, **options)
    return out.getvalue()


def shades(seed: int, size: tuple[int, int], **options: Any) -> bytes:
    """A JPEG file of this size whose bytes change each time it is rebuilt."""
    out = BytesIO()
    corners = Image.frombytes("RGB", (8, 8), Random(seed).randbytes(192))
    corners.resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", **options)
    return out.getvalue()


def opened(file: bytes) -> Image.Image:
    """The image in a file, which must be complete."""
    image = Image.open(BytesIO(file))
    image.load()
    return image


@dataclass(frozen=True, slots=True)
class Images:
    """Requests about images that must succeed."""

    http: httpx.AsyncClient

    async def upload(self, content: bytes | None = None, **query: str) -> str:
        """Upload an image. It is ready when this returns its id."""
        (result,) = await self._results(await self.send(content, **query))
        assert result["outcome"] == "applied", result
        return str(result["id"])

    async def refused(self, content: bytes) -> str:
        """The reason why an upload is refused."""
        (result,) = await self._results(await self.send(content))
        assert result["outcome"] == "refused", result
        return str(result["reason"])

    async def send(self, content: bytes | None = None, **query: str) -> httpx.Response:
        headers = {**WAIT, **AS_FILE}
        return await self.http.post(IMAGES, content=content or picture(), headers=headers, params=query)

    async def status(self, id: str, **query: str) -> int:
        """The HTTP status of an image."""
        return (await self.http.get(f"{IMAGES}/{id}", params=query)).status_code

    async def moderate(self, action: str, review_id: str, id: str) -> Json:
        """Hide or show an image. Returns the result of the command."""
        response = await self.http.post(f"{REVIEWS}/{review_id}/images/{id}/{action}", headers=WAIT)
        (result,) = await self._results(response)
        return result

    async def _results(self, response: httpx.Response) -> list[Json]:
        return await Facade(self.http).results(response)
