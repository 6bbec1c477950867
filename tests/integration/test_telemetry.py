"""Metrics, traces and logs of every process."""

import json
import math
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from messaging.metrics import FAMILIES, PREFIX
from tests.support.facade import REVIEWS, Facade, body_of, new_id, once, submission
from tests.support.messages import Message, message, review_message
from tests.support.retries import retry_until_decided, retry_until_served
from tests.support.secured import Secured
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.long

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
MEASURED_BY_API = (
    *("outbox_documents", "outbox_age_seconds", "mails_owed", "mails_overdue_seconds", "reviews_topic_age_seconds"),
    *("reviews_missing", "reminders_last_run_timestamp_seconds", "reminders_overdue_seconds"),
)
SECRET = "anna.berg@example.org"


@pytest.fixture(scope="module")
async def service(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run a service with all telemetry enabled."""
    folder = tmp_path_factory.mktemp("signals")
    service = Service(servers, folder)
    service.environment |= {
        "PLAUDIT_SMTP__HOST": "127.0.0.1",
        "PLAUDIT_SMTP__SENDER": "shop@example.com",
        "PLAUDIT_TRACES__FILE": str(folder / "traces.jsonl"),
        "PLAUDIT_LOG__FORMAT": "json",
        "PLAUDIT_LOG__LEVEL": "debug",
    }
    for name in ("scheduler", "mailer", "api", "worker"):
        service.environment["PLAUDIT_METRICS__PORT"] = service.environment[f"{name}_port"] = str(free_port())
        if name != "worker":
            service.start(name)
    async with service.running():
        yield service


def traced(trace: str) -> dict[str, str]:
    """Return the headers of a request within a trace."""
    return {"traceparent": f"00-{trace}-00000000000000ab-01"}


def metrics_address(service: Service, process: str) -> str:
    return f"http://127.0.0.1:{service.environment[f'{process}_port']}"


async def scraped(address: str) -> tuple[set[str], Samples]:
    """Return the names of the metric families, and the samples."""
    async with httpx.AsyncClient(timeout=60) as http:
        # A stalled process answers with an error for some seconds.
        response = await eventually(partial(http.get, f"{address}/metrics"), lambda answer: answer.status_code == 200)
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(response.text))
    samples = {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}
    return {family.name for family in families}, samples


def sample(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((PREFIX + name, frozenset(labels.items())), 0)


def total(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of all samples with these labels, whatever their other labels."""
    return sum(v for (n, found), v in samples.items() if n == PREFIX + name and labels.items() <= found)


@pytest.mark.parametrize("process", ["api", "worker", "scheduler", "mailer"])
async def test_every_process_exposes_the_declared_metrics(service: Service, process: str) -> None:
    address = service.address if process == "api" else metrics_address(service, process)

    async def served() -> tuple[set[str], Samples] | None:
        try:
            return await scraped(address)
        except httpx.TransportError:
            return None  # the start of the scheduler and the mailer isn't awaited

    found = await eventually(served)
    assert found is not None
    names, samples = found
    assert {name for name in names if name.startswith(PREFIX)} == FAMILIES
    assert [dict(labels)["process"] for name, labels in samples if name == "plaudit_build_info"] == [process]
    measured = {f"{PREFIX}{name}" for name in MEASURED_BY_API}
    assert measured <= names
    if process != "api":
        with_value = {name for (name, _), value in samples.items() if name in measured and not math.isnan(value)}
        assert with_value == set()


async def test_metrics_port_needs_no_credentials(servers: Servers, tmp_path: Path) -> None:
    port = free_port()
    service = Service(servers, tmp_path, environment={"PLAUDIT_METRICS__PORT": str(port)})
    Secured(service).trust()

    async def known() -> tuple[float, float, set[str]]:
        _, samples = await scraped(f"http://127.0.0.1:{port}")
        kafka, mongodb = (sample(samples, "state_known", what=what) for what in ("kafka", "mongodb"))
        return kafka, mongodb, {name for name, _ in samples} & {"plaudit_consumer_lag_records"}

    async with service.running(workers=()):
        async with service.client() as http:
            assert (await http.get("/metrics")).status_code == 401
        # The fallback broker doesn't report the positions of consumers.
        lag = (0, 1, set()) if servers.is_tansu else (1, 1, {"plaudit_consumer_lag_records"})
        await eventually(known, lambda found: found == lag)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            await eventually(partial(http.get, "/health/ready"), lambda answer: answer.status_code == 200)
            assert (await http.get("/api/stores")).status_code == 404


async def test_consuming_worker_is_ready(service: Service) -> None:
    async with httpx.AsyncClient(base_url=metrics_address(service, "worker"), timeout=60) as http:
        for path in ("/health/live", "/health/ready"):
            # A stalled worker reports that for some seconds.
            await eventually(partial(http.get, path), lambda answer: answer.json() == {"status": "pass"})


async def changes_by_a_review(service: Service, facade: Facade) -> tuple[Samples, Samples]:
    """Store, approve and edit a review, and send what is refused: the samples of the API and of the worker that this
    changed, as differences."""
    addresses, product = (service.address, metrics_address(service, "worker")), new_id()
    await service.idle()
    before = [(await scraped(address))[1] for address in addresses]
    store = await facade.open_store(reviewsEnabled=False)
    (id,) = await facade.submit_approved(submission(product, 4))
    refused = await retry_until_served(partial(facade.http.post, REVIEWS, json=[submission(product, storeId=store)]))
    assert refused.status_code == 403
    repeated, edited = (review_message(submission(product, rating, id=id)) for rating in (4, 5))
    await service.publish("review-submissions", repeated, edited, Message(None, b"not a review"))
    await service.idle()
    after = [(await scraped(address))[1] for address in addresses]
    assert id not in str(after[0])
    assert store not in str(after[0])
    api, worker = (
        {key: value - old.get(key, 0) for key, value in new.items() if value != old.get(key, 0)}
        for old, new in zip(before, after, strict=True)
    )
    assert sample(worker, "published_messages_total", topic="events") >= 2
    return api, worker


def counts_of(api: Samples, worker: Samples) -> Json:
    submissions = {labels: n for (name, labels), n in worker.items() if name == "plaudit_submissions_total"}
    return {
        "letters": total(worker, "dead_letters_total"),
        "invalid": sample(worker, "dead_letters_total", topic="review-submissions", code="invalid-json"),
        "submissions": {dict(labels)["outcome"]: n for labels, n in submissions.items()},
        "approvals": sample(worker, "moderations_total", action="approve", outcome="applied"),
        "changes": sample(worker, "consumed_records_total", topic="review-changes"),
        "batches": sample(worker, "batch_seconds_count", topic="review-changes"),
        "stores": total(worker, "batch_records_sum", topic="store-updates"),
        "refused": sample(api, "submissions_total", outcome="reviews-disabled"),
        "4xx": sample(api, "http_requests_total", method="POST", route=REVIEWS, status="4xx"),
        "puts": sample(api, "http_request_seconds_count", method="PUT", route="/api/stores/{storeId}"),
    }


async def test_events_are_counted(service: Service, facade: Facade) -> None:
    async def counted() -> Json:
        return counts_of(*await changes_by_a_review(service, facade))

    names = ("letters", "invalid", "approvals", "changes", "batches", "stores", "refused", "4xx", "puts")
    expected = {**dict.fromkeys(names, 1), "submissions": {"stored": 1, "repeated": 1, "edited": 1}}
    # On a busy machine, requests are sent again, and records are redelivered after a rebalance: both are counted again.
    await eventually(counted, lambda found: found == expected)


@pytest.mark.kafka
async def test_lag_is_measured_while_no_worker_runs(service: Service, facade: Facade) -> None:
    async def lag() -> float | None:
        _, samples = await scraped(service.address)
        if sample(samples, "state_known", what="kafka") != 1:
            return None  # Kafka's answer took longer than the timeout
        shown = sum(name.endswith("consumer_standstill_seconds") for name, _ in samples)
        records = total(samples, "consumer_lag_records", topic="review-submissions")
        assert shown >= 1 or records == 0
        return records

    await eventually(lag, lambda found: found == 0)
    await service.end("worker")
    reviews = [submission(new_id(), 3) for _ in range(30)]
    assert (await facade.http.post(REVIEWS, json=reviews)).status_code == 202
    await eventually(lag, lambda found: found == 30)
    early = await facade.http.post(f"{REVIEWS}/approve", json=[new_id("review")])
    assert early.status_code == 202
    service.start("worker")
    await eventually(lag, lambda found: found == 0)

    async def parked() -> float:
        _, samples = await scraped(service.address)
        return sample(samples, "parked_commands", kind="reviews")

    await eventually(parked, lambda found: found == 1)


def traces_file(service: Service) -> Path:
    return Path(service.environment["PLAUDIT_TRACES__FILE"])


def spans_of(service: Service, trace: str) -> list[Json]:
    spans = whole_lines(traces_file(service).read_text())
    return [span for span in spans if span["context"]["trace_id"] == f"0x{trace}"]


def process_of(span: Json) -> str:
    name: str = span["resource"]["attributes"]["service.name"]
    return name.removeprefix("plaudit-")


def whole_lines(text: str) -> list[Json]:
    """Return the complete lines of a file that is being written."""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def names_of_spans(service: Service, trace: str) -> set[str]:
    return {span["name"] for span in spans_of(service, trace)}


def path_to(spans: list[Json], name: str) -> list[str]:
    """Return the names of the spans from the root to the last span with this name."""
    by_id = {span["context"]["span_id"]: span for span in spans}
    path, span = [], next((span for span in reversed(spans) if span["name"] == name), None)
    while span:
        path.append(f"{process_of(span)}: {span['name']}")
        span = by_id.get(span["parent_id"])
    return path[::-1]


async def test_trace_spans_from_request_to_rating(service: Service, facade: Facade, product: str) -> None:
    trace = uuid4().hex
    # Concurrent submissions, so that records come in batches, some of them without a trace.
    others = [submission(new_id(), 2) for _ in range(20)]
    await service.publish("review-submissions", *(message(other) for other in others))
    await facade.command("POST", REVIEWS, [submission(product)], traced(trace))

    store, rate = "consume review-submissions", "consume review-changes"
    expected = {f"POST {REVIEWS}", "publish review-submissions", store, "publish events"}
    names = await eventually(lambda: names_of_spans(service, trace), lambda names: names >= expected)
    assert names == expected
    spans = spans_of(service, trace)
    assert [span["name"] for span in spans if process_of(span) == "api"].count(f"POST {REVIEWS}") == 1
    assert path_to(spans, store) == [f"api: POST {REVIEWS}", "api: publish review-submissions", f"worker: {store}"]

    # A span is written when it ends, and those of a batch end last.
    expected = {f"POST {REVIEWS}/approve", "publish review-changes", rate, "publish events"}

    async def direct_trace() -> str:
        """Return the trace of a moderation; empty if it took the way through the router, as it does while Kafka is slow
        to confirm that no command waits there."""
        trace = uuid4().hex
        (review,) = await facade.submit(submission(new_id()))
        await facade.command("POST", f"{REVIEWS}/approve", [review], traced(trace))
        names = await eventually(lambda: names_of_spans(service, trace), lambda names: names >= expected)
        return "" if "publish moderation-commands" in names else trace

    spans = spans_of(service, await eventually(direct_trace))
    way = [f"api: POST {REVIEWS}/approve", "api: publish review-changes", f"worker: {rate}"]
    assert path_to(spans, rate) == way
    assert path_to(spans, "publish events") == [*way, "worker: publish events"]


async def test_parked_command_stays_in_its_trace(service: Service, facade: Facade) -> None:
    trace, id = uuid4().hex, new_id("review")
    await facade.approve_early(id, traced(trace))
    await facade.submit(submission(new_id(), id=id))
    expected = {"consume moderation-commands", "consume review-changes"}
    await eventually(lambda: names_of_spans(service, trace), lambda names: names >= expected)


async def test_logs_are_json_with_ids(service: Service, facade: Facade) -> None:
    trace = uuid4().hex
    review = submission(new_id(), userName=SECRET, review=SECRET, title=SECRET)
    refused = await facade.http.post(f"{REVIEWS}?q={SECRET}", json=[review])
    assert refused.status_code == 422
    post = partial(facade.http.post, REVIEWS, json=[review], headers=traced(trace) | once())
    command = body_of(await retry_until_decided(post), dict)["commandId"]

    def lines() -> list[Json]:
        return [line for name in ("api", "worker") for line in whole_lines(service.log(name))]

    def of_command(lines: list[Json], event: str) -> list[Json]:
        return [line for line in lines if line["event"] == event and line.get("command_id") == command]

    def are_complete(found: list[Json]) -> bool:
        statuses = [request["status"] for request in of_command(found, "request")]
        return 200 in statuses and bool(of_command(found, "batch done"))

    found = await eventually(lines, are_complete)
    # On a busy machine, the request is sent again.
    request, batch = (of_command(found, event)[-1] for event in ("request", "batch done"))
    assert request.items() >= {"method": "POST", "route": REVIEWS, "status": 200, "trace_id": trace}.items()
    assert request["ms"] > 0
    assert batch.items() >= {"topic": "review-submissions", "trace_id": trace}.items()
    assert SECRET not in json.dumps(found)
    # The part of an address that isn't changed by encoding in a query.
    assert SECRET.partition("@")[0] not in traces_file(service).read_text()
