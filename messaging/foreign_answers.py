"""Answers of other HTTP servers."""

import httpx


async def read_answer(response: httpx.Response, most_bytes: int) -> bytes:
    """The body as received. Raises ValueError if the status isn't 200, or if the body is larger than `most_bytes`."""
    if response.status_code != httpx.codes.OK:
        raise ValueError(f"the answer has status {response.status_code}")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most_bytes:
            raise ValueError(f"the answer has more than {most_bytes} bytes")
    return bytes(body)
