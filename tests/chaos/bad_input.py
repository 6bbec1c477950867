"""`python -m tests.chaos.bad_input`: malformed input is refused with a reason, and nothing else is affected."""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import KafkaError, Message, Producer

from devservers.broker import embedded_kafka
from devservers.mongo import embedded_mongo
from messaging.decoding import refusal_of
from messaging.readers import READERS
from messaging.templates.rendering import in_template_thread
from messaging.topics import Topic
from tests.chaos import bad_records
from tests.chaos.check_dead_letters import Place
from tests.chaos.corpus import RAW, REQUESTS, VALUES, hypothesis_values, mutated, places, replaced
from tests.chaos.output import say
from tests.chaos.record_kinds import kinds
from tests.support.facade import Facade, new_id, submission
from tests.support.interface import MESSAGES
from tests.support.service import Servers, Service, running_service
from tests.support.waiting import eventually

FROM_HYPOTHESIS = 400
"""Number of values that Hypothesis generates."""
AT_ONCE = 8
"""Number of concurrent requests."""
NO_LONG_WAITS = '[parameters]\n"header.Prefer" = "wait=1"\n'
"""Configuration of Schemathesis: no request waits for its outcome longer than a second."""
HEADERS: Final[list[list[tuple[str, str | bytes | None]]]] = [
    [],
    [("ce_id", b"\xff")],
    [("", None), ("ce_id", b"1")],
    [("ce_id", b"1"), ("ce_source", None)],
    [("ce_id", None), ("ce_commandid", None), ("traceparent", None)],
    [("ce_id", b""), ("x-error-code", None), ("x-replayed-from", None)],
]
"""Record headers with nulls, empty names and invalid UTF-8."""
NOW: Final = 0  # librdkafka's value for the current time
TOPICS: Final = [topic for topic in MESSAGES if topic is not Topic.MAIL_COMMANDS]
"""All consumed topics but the mailer's, which doesn't run here."""
TIMES: Final = [*([NOW] * 8), 1, -(2**40), -(2**62)]
"""Record timestamps in milliseconds; most are the current time."""


@dataclass
class Findings:
    """Counts of HTTP statuses and dead-letter codes, and the faults found."""

    statuses: Counter[int] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


async def send_requests(service: Service, number: int, count: int) -> Findings:
    """Send every hostile value in every place of every body and every hostile body to every endpoint, then random
    mutations.

    Sends `count` requests; with fewer than the systematic ones, a random sample of these.
    """
    rng, findings = random.Random(number), Findings()
    found = hypothesis_values(number, FROM_HYPOTHESIS)
    wanted: list[tuple[str, str, bytes]] = []
    for method, path, body in REQUESTS:
        wanted += [(method, path, raw) for raw in RAW]
        wanted += [
            (method, path, json.dumps(replaced(body, place, value)).encode())
            for place in places(body)
            for value in VALUES
        ]
    if count < len(wanted):
        wanted = rng.sample(wanted, count)
    while len(wanted) < count:
        method, path, body = rng.choice(REQUESTS)
        wanted.append((method, path, mutated(rng, body, found)))
    async with service.client() as client:
        remaining = iter(wanted)

        async def send() -> None:
            for method, path, body in remaining:
                await _send(client, findings, method, path, body)

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))
    return findings


async def _send(client: httpx.AsyncClient, findings: Findings, method: str, path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    try:
        response = await client.request(method, path, content=body, headers=headers)
    except httpx.TransportError as error:
        findings.faults.append(f"{method} {path} {body[:300]!r}: {error!r}")
        return
    findings.statuses[response.status_code] += 1
    if response.status_code >= 500 or "Traceback" in response.text:
        findings.faults.append(f"{method} {path} {body[:300]!r}: {response.status_code} {response.text[:500]}")
    elif response.status_code >= 400 and response.headers["content-type"] != "application/problem+json":
        findings.faults.append(f"{method} {path} {body[:300]!r}: {response.headers['content-type']}")


def bad_messages(rng: random.Random, count: int, found: list[Any]) -> Iterator[tuple[str, bytes]]:
    """Topic and value of each message: every hostile value in every place of every message, or a sample of `count`;
    then random mutations."""
    wanted = [
        (topic, json.dumps(replaced(message, place, value)).encode())
        for topic in TOPICS
        for message in MESSAGES[topic]
        for place in places(message)
        for value in VALUES
    ]
    yield from rng.sample(wanted, min(count, len(wanted)))
    for sent in range(len(wanted), count):
        topic = TOPICS[sent % len(TOPICS)]
        yield topic, mutated(rng, rng.choice(MESSAGES[topic]), found)


async def send_messages(service: Service, number: int, count: int) -> Findings:
    """Publish `count` messages over all topics. Each that the reader of its topic refuses must become a dead letter,
    each other one must take effect or become one, and the reason must be a specific one."""
    findings, found = Findings(), set[Place]()
    refused = await publish_messages(service, random.Random(number), number, count)
    for topic in TOPICS:
        await eventually(partial(service.lag, topic), lambda lag: lag == 0, deadline_s=60 + count / 200)
        for letter in await service.records(f"{topic}.dlq"):
            reason = dict(letter.headers)
            found.add(place_of(reason))
            code = reason["x-error-code"].decode()
            findings.codes[code] += 1
            if code == "processing-failed":
                why = reason["x-error-message"].decode()[:500]
                findings.faults.append(f"{topic} {(letter.value or b'')[:300]!r}: {why}")
    findings.faults += without_letters(refused, found)
    return findings


async def publish_messages(service: Service, rng: random.Random, number: int, count: int) -> dict[Place, bytes]:
    """Publish `count` messages. Returns the place and the start of each value that the reader of its topic refuses."""
    refused = dict[Place, bytes]()

    def note(value: bytes | None, error: KafkaError | None, record: Message) -> None:
        assert error is None, error
        if value is not None:
            refused[str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)] = value[:300]

    producer = Producer({"bootstrap.servers": service.servers.kafka, "linger.ms": 20, "message.max.bytes": 2**21})
    for sent, (topic, value) in enumerate(bad_messages(rng, count, hypothesis_values(number, FROM_HYPOTHESIS))):
        key = rng.choice([None, b"", b"e", b"\xff", str(rng.randrange(50)).encode()])
        headers, time = rng.choice(HEADERS), rng.choice(TIMES)
        # In the thread in which the consumer of templates reads, too.
        is_refused = await in_template_thread(refusal_of, value, READERS[Topic(topic)]) is not None
        delivered = partial(note, value if is_refused else None)
        while True:
            try:
                producer.produce(
                    service.topic(topic), value, key, headers=headers, timestamp=time, on_delivery=delivered
                )
                break
            except BufferError:
                await asyncio.to_thread(producer.poll, 0.5)
        if sent % 1_000 == 0:
            producer.poll(0)
            await asyncio.sleep(0)
    assert await asyncio.to_thread(producer.flush, 120) == 0
    return refused


def place_of(headers: Mapping[str, bytes]) -> Place:
    """The place of the record of a dead letter with these headers."""
    topic, partition, offset = (headers[f"x-source-{part}"].decode() for part in ("topic", "partition", "offset"))
    return topic, int(partition), int(offset)


def without_letters(refused: Mapping[Place, bytes], found: Set[Place]) -> list[str]:
    """Descriptions of refused records without a dead letter."""
    return [f"no dead letter: {place} {value!r}" for place, value in sorted(refused.items()) if place not in found]


async def still_works(service: Service) -> None:
    """Raise AssertionError unless every process lives and a review can be submitted, approved and rated."""
    assert all(process.poll() is None for process in service.processes.values())
    async with service.client() as client:
        facade, product = Facade(client), new_id()
        # Well-formed input took effect, and may have changed the rating method.
        assert await facade.command("PUT", "/api/settings", {"ratingCalculationMethod": "average"})
        (id,) = await facade.submit(submission(product, 4))
        assert await facade.moderate("approve", id) == ["applied"]
        rating = await facade.rating(product)
        assert rating == (4, 1), rating


def run_schemathesis(
    service: Service, number: int, examples: int, phases: str = "examples,coverage,fuzzing"
) -> tuple[int, str]:
    """Run Schemathesis on the OpenAPI document. Returns its exit code, 0 if no response was a 5xx, and its report."""
    (service.folder / "schemathesis.toml").write_text(NO_LONG_WAITS)
    finished = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{service.address}/openapi.json"),
            *("--checks", "not_a_server_error", "--phases", phases, "--mode", "all"),
            *("--max-examples", str(examples), "--seed", str(number), "--request-timeout", "60", "--no-color"),
            *("--exclude-path-regex", "^/(metrics|health)"),
        ],
        cwd=service.folder,
        env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(service.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.returncode, finished.stdout + finished.stderr


async def run(number: int, requests: int, messages: int, examples: int) -> dict[str, Any]:
    """The long form, on servers of its own. Returns the figures and faults."""
    with tempfile.TemporaryDirectory(prefix="plaudit-bad-input-") as folder:
        data = Path(folder)
        async with (
            embedded_mongo(data, say) as mongo,
            embedded_kafka(data, say) as kafka,
            running_service(Servers(kafka.address, mongo.uri, is_tansu=False), data) as service,
        ):
            by_http = await send_requests(service, number, requests)
            say(f"{by_http.statuses.total()} requests: {dict(by_http.statuses)}")
            by_kafka = await send_messages(service, number, messages)
            say(f"{messages} messages: dead letters {dict(by_kafka.codes)}")
            by_records = await bad_records.run(service, kinds(), number, disturbed=True)
            say(f"{by_records['bad']} bad records among {by_records['good']} good ones")
            code, output = 0, ""
            if examples:
                code, output = await asyncio.to_thread(run_schemathesis, service, number, examples)
            say(output[-3_000:])
            await still_works(service)
    faults = [*by_http.faults, *by_kafka.faults, *by_records["faults"]] + (
        [f"schemathesis: exit code {code}"] if code else []
    )
    return {
        **{"seed": number, "requests": by_http.statuses.total(), "statuses": dict(by_http.statuses)},
        **{"messages": messages, "deadLetters": dict(by_kafka.codes), "records": by_records, "faults": faults[:50]},
    }


def main() -> None:
    """Send malformed input, and fail if any of it caused a 5xx response or ended a process."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.bad_input", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--examples", type=int, default=300, help="examples of Schemathesis per operation; 0 skips it")
    options = parser.parse_args()
    found = asyncio.run(run(options.seed, options.requests, options.messages, options.examples))
    say(json.dumps(found, indent=2))
    results = Path(__file__).with_name("results")
    results.mkdir(exist_ok=True)
    (results / "bad-input.json").write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
