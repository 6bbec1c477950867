"""Clients that don't give up: they repeat each command unchanged until it is acknowledged, and only then does it
count."""

import asyncio
import itertools
import json
import threading
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx
from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.model import Json

TIMEOUT_S = 400.0
"""Seconds until a command without an acknowledgement is a failure of the service. No fault lasts half as long."""

METADATA_REFRESH_S = 5.0
"""Seconds between two metadata refreshes of upstream systems, which look for new partitions."""

FIRST_REMEMBERED = 100
REMEMBERED = 200
"""Number of acknowledged HTTP commands that are kept to be repeated: the first ones, and the last ones."""

HISTORY_LENGTH = 60
"""Maximum number of entries kept per object."""


class NotAcknowledgedError(Exception):
    """A command wasn't acknowledged although every fault was over."""


class NeverAppliedError(Exception):
    """A command was acknowledged and never took effect: it is lost."""


@dataclass
class Ledger:
    """Acknowledged commands by object, and unexpected responses."""

    acknowledged: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    """Number of acknowledged commands by the first word of their description."""
    by_sender: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The same by the class of the client and the first word."""
    unknown: int = 0
    """Number of attempts whose outcome is unknown."""
    unexpected: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    histories: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def acknowledge(self, what: str, *objects: str, by: str = "") -> None:
        """Record an acknowledged command for each of these objects, sent by a client of the class `by`."""
        self.acknowledged += len(objects)
        word = what.split(" ", 1)[0]
        self.by_kind[word] += len(objects)
        self.by_sender[by, word] += len(objects)
        now = f"{asyncio.get_running_loop().time():.2f} {what}"
        for id in objects:
            history = self.histories[id]
            history.append(now)
            del history[:-HISTORY_LENGTH]

    def report_unexpected(self, what: str) -> None:
        """Record something that should never happen."""
        self.unexpected.append(what[:1_500])


class Answer(NamedTuple):
    """The final response to a request. `attempts` includes attempts with an unknown outcome."""

    status: int
    body: Any
    attempts: int

    @property
    def command(self) -> str | None:
        """The id of the command; None if it was refused before it got one."""
        id: str | None = self.body.get("commandId")
        return id


class Sent(NamedTuple):
    """An acknowledged command with an idempotency key, and what it was acknowledged with: its id and those of its
    items."""

    method: str
    path: str
    body: Any
    key: str
    command: str
    ids: Sequence[str]


def _is_temporary(response: httpx.Response) -> bool:
    """True if a server is unavailable, or this machine was too busy to send the request in time."""
    is_unavailable = response.status_code == HTTPStatus.SERVICE_UNAVAILABLE and "retry-after" in response.headers
    return is_unavailable or response.status_code == HTTPStatus.REQUEST_TIMEOUT


@dataclass
class Http:
    """A client of all facades, which tries the next one after a failure."""

    facades: Sequence[str]
    ledger: Ledger
    client: httpx.AsyncClient
    first_sent: list[Sent] = field(default_factory=list)
    """The first acknowledged commands with keys, at most `FIRST_REMEMBERED`."""
    sent: deque[Sent] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """The last ones."""
    _turn: "itertools.count[int]" = field(default_factory=itertools.count)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        wait: int | None = None,
        is_remembered: bool = True,
    ) -> Answer:
        """Send a request until it has a final response: not 503, 408 or a connection error. Bytes are sent unchanged.

        It is remembered if it has a key and is acknowledged. Raises NotAcknowledgedError after `TIMEOUT_S`.
        """
        headers = {"Content-Type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
        headers |= {"Idempotency-Key": key} if key else {}
        headers |= {"Prefer": f"wait={wait}"} if wait else {}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        end = asyncio.get_running_loop().time() + TIMEOUT_S
        for attempts in itertools.count(1):
            facade = self.facades[next(self._turn) % len(self.facades)]
            try:
                response = await self.client.request(method, facade + path, content=content, headers=headers)
            except httpx.TransportError as error:
                self.ledger.unknown += 1
                problem: object = repr(error)
            else:
                self.ledger.statuses[response.status_code] += 1
                if response.status_code < 500 and not _is_temporary(response):
                    answer = Answer(response.status_code, response.json(), attempts)
                    if key and is_remembered and answer.status in (200, 202, 409) and answer.command:
                        self._remember(Sent(method, path, body, key, answer.command, answer.body["ids"]))
                    return answer
                problem = response.text
                if not _is_temporary(response):
                    self.ledger.report_unexpected(f"{method} {path} answered {response.status_code}: {problem}")
                self.ledger.unknown += 1
            if asyncio.get_running_loop().time() > end:
                raise NotAcknowledgedError(f"{method} {path}: {problem}")
            await asyncio.sleep(0.2)  # retry delay
        raise AssertionError("unreachable: the loop ends with a response or an exception")

    def _remember(self, sent: Sent) -> None:
        if any(each.key == sent.key for each in self.remembered()):
            return
        if len(self.first_sent) < FIRST_REMEMBERED:
            self.first_sent.append(sent)
        else:
            self.sent.append(sent)

    def remembered(self) -> list[Sent]:
        """The first and the last acknowledged commands with keys."""
        return [*self.first_sent, *self.sent]

    async def repeat(self, sent: Sent, *, wait: int | None = None) -> Answer:
        """Send a command again with its key."""
        return await self.send(sent.method, sent.path, sent.body, key=sent.key, wait=wait, is_remembered=False)

    async def has(self, path: str) -> bool:
        """True if a GET of the path returns 200, False if it returns 404. Raises NotAcknowledgedError after `TIMEOUT_S`
        of other responses."""
        end = asyncio.get_running_loop().time() + TIMEOUT_S
        while True:
            try:
                response = await self.client.get(self.facades[next(self._turn) % len(self.facades)] + path)
            except httpx.TransportError as error:
                problem: object = repr(error)
            else:
                if response.status_code in (200, 404):
                    return response.status_code == 200
                problem = f"{response.status_code}: {response.text}"
                if not _is_temporary(response):
                    self.ledger.report_unexpected(f"GET {path} answered {problem}")
            if asyncio.get_running_loop().time() > end:
                raise NotAcknowledgedError(f"GET {path}: {problem}")
            await asyncio.sleep(0.2)  # retry delay

    async def wait_for(self, method: str, path: str, body: Any, *, key: str) -> Answer:
        """Send a command until it has been applied or refused. Raises NeverAppliedError if it was only acknowledged
        after `TIMEOUT_S`."""
        end = asyncio.get_running_loop().time() + TIMEOUT_S
        while True:
            answer = await self.send(method, path, body, key=key, wait=10)
            if answer.status != 202:
                return answer
            if asyncio.get_running_loop().time() > end:
                raise NeverAppliedError(f"{method} {path} was acknowledged but not applied within {TIMEOUT_S:.0f} s")


class Upstream:
    """An upstream system on librdkafka with an idempotent producer, which retries in order until Kafka acknowledges."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._prefix = prefix
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
                "topic.metadata.refresh.interval.ms": int(METADATA_REFRESH_S * 1000),
                "partitioner": "murmur2_random",  # as Java clients and the facade: one key, one partition
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._polling = threading.Thread(target=self._poll, daemon=True)
        self._polling.start()

    async def publish(
        self, topic: str, key: str, *values: Json | Sequence[Json] | bytes, event_id: str | None = None
    ) -> None:
        """Publish values with one key, and the id of a CloudEvent if given. Returns once Kafka has acknowledged all;
        raises NotAcknowledgedError."""
        await asyncio.gather(*[self._send(topic, key, value, event_id) for value in values])

    async def publish_each(self, topic: str, values: Mapping[str, Json]) -> None:
        """Publish values by their keys, all at once, otherwise like `publish`."""
        await asyncio.gather(*[self._send(topic, key, value) for key, value in values.items()])

    def _send(
        self, topic: str, key: str, value: Json | Sequence[Json] | bytes, event_id: str | None = None
    ) -> asyncio.Future[None]:
        done: asyncio.Future[None] = self._loop.create_future()

        def delivered(error: KafkaError | None, _: Message) -> None:
            self._loop.call_soon_threadsafe(settle, error)

        def settle(error: KafkaError | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(NotAcknowledgedError(f"{topic}: {error}"))

        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        headers: dict[str, str | bytes | None] = {}
        if event_id:
            headers = {"ce_specversion": "1.0", "ce_id": event_id, "ce_source": "/chaos"}
        self._producer.produce(self._prefix + topic, content, key, on_delivery=delivered, headers=headers)
        return done

    def _poll(self) -> None:
        while not self._is_over.is_set():
            self._producer.poll(0.1)

    def close(self) -> None:
        """Stop polling."""
        self._is_over.set()
        self._polling.join()


@asynccontextmanager
async def clients(
    facades: Sequence[str], bootstrap_servers: str, prefix: str, ledger: Ledger
) -> AsyncIterator[tuple[Http, Upstream]]:
    """A client of the facades and one of Kafka."""
    upstream = Upstream(bootstrap_servers, prefix)
    try:
        async with httpx.AsyncClient(timeout=20) as client:
            yield Http(facades, ledger, client), upstream
    finally:
        upstream.close()
