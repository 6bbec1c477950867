"""Uploads whose form can't be read."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from api.web.problems import ProblemError, ProblemKind
from api.web.uploads import FORM, Upload


async def test_an_overlong_boundary_is_no_form() -> None:
    named = f"{FORM}; boundary={'b' * 257}".encode()
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", named)]})
    with pytest.raises(ProblemError) as refused:
        await Upload()(request)
    assert refused.value.kind is ProblemKind.MALFORMED_BODY
