"""The short form of `python -m tests.chaos.bad_input`."""

import os
import random

import pytest

from tests.chaos.bad_input import run_schemathesis, send_messages, send_requests, still_works
from tests.support.service import Service

pytestmark = pytest.mark.slow


async def test_bad_input_is_refused(own_service: Service) -> None:
    seed = int(os.environ.get("SEED", random.randrange(10**6)))
    by_http = await send_requests(own_service, seed, 800)
    assert by_http.faults == [], seed
    assert set(by_http.statuses) >= {202, 400, 422}
    if not own_service.servers.is_tansu:  # Tansu reports no lag, and librdkafka can't use it
        by_kafka = await send_messages(own_service, seed, 2_000)
        assert by_kafka.faults == [], seed
        assert set(by_kafka.codes) >= {"invalid-json", "invalid-message"}
    await still_works(own_service)


def test_openapi_requests_cause_no_5xx(service: Service) -> None:
    code, output = run_schemathesis(service, 1, 2, "fuzzing")
    assert code == 0, output
