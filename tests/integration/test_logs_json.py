"""Every line that a process of the service logs is JSON, in all circumstances."""

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from devservers.broker import Broker, embedded_kafka
from tests.support.facade import REVIEWS, new_id, submission
from tests.support.forks import run_forked
from tests.support.messages import Message, message
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.long

PROCESSES = ("api", "worker", "scheduler", "mailer")
JSON = {"PLAUDIT_LOG__FORMAT": "json"}
AWAY_S = 8.0


def lines_of(text: str) -> list[Json]:
    """Return the parsed lines of a log; each has a time, a level, a logger and an event."""
    lines: list[Json] = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert {"timestamp", "level", "logger", "event"} <= line.keys(), line
    return lines


def loggers(log: str) -> set[str]:
    """Return the packages that have logged; an incomplete last line is left out."""
    return {line["logger"].partition(".")[0] for line in lines_of(log[: log.rfind("\n") + 1])}


@pytest.mark.kafka
@pytest.mark.slow
async def test_each_process_logs_json_through_an_outage(servers: Servers, tmp_path: Path) -> None:
    async with embedded_kafka(tmp_path / "kafka", print, broker=Broker.KAFKA) as kafka:
        smtp = {"PLAUDIT_SMTP__HOST": "127.0.0.1", "PLAUDIT_SMTP__PORT": str(free_port())}
        sender = {"PLAUDIT_SMTP__SENDER": "shop@example.com"}
        service = Service(
            Servers(kafka.address, servers.mongo, is_tansu=False), tmp_path, environment=JSON | smtp | sender
        )
        for process in ("scheduler", "mailer"):
            service.start(process)
        async with service.running(), service.client() as client:
            post = partial(client.post, REVIEWS, json=[submission(new_id())])
            assert (await post()).status_code == 202
            await service.publish("review-submissions", Message(None, b"not a review"))
            await eventually(lambda: "mailer ready" in service.log("mailer") and "ready" in service.log("scheduler"))
            await kafka.stop()
            assert (await post()).status_code == 503
            await asyncio.sleep(AWAY_S)  # each process notices and retries
            await eventually(lambda: "aiokafka" in loggers(service.log("worker")))
            await kafka.start()

            async def accepted() -> bool:
                return (await post()).status_code == 202

            await eventually(accepted)
            for process in PROCESSES:
                await service.end(process)
        for process in PROCESSES:
            lines = lines_of((tmp_path / f"{process}.log").read_text())
            assert lines, process


@pytest.mark.parametrize(
    ("command", "environment", "code"),
    [
        *((process, {"PLAUDIT_KAFKA__PARTITIONS": "0"}, 2) for process in (*PROCESSES, "init")),
        ("api", {}, 1),
        ("api", {"PLAUDIT_LOG__LEVEL": "loud"}, 2),
        ("worker --nonsense", {}, 2),
    ],
)
def test_failed_start_is_logged(tmp_path: Path, command: str, environment: dict[str, str], code: int) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PLAUDIT_")}
    ended = run_forked(*command.split(), environment=bare | JSON | environment, folder=tmp_path)
    assert ended.returncode == code, ended.stderr
    (*_, last) = lines_of(ended.stdout + ended.stderr)
    assert last["level"] in ("error", "critical")


async def test_unexpected_error_is_logged_with_traceback(servers: Servers, tmp_path: Path) -> None:
    # OpenTelemetry validates its own variables.
    traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}
    service = Service(servers, tmp_path, environment=JSON | traces)
    for process in ("api", "worker"):
        ended = await service.run(process, code=1)
        (*_, last) = lines_of(ended.stdout + ended.stderr)
        assert (last["level"], last["event"]) == ("critical", "stopped by an error")
        assert "ValueError: max_queue_size" in last["exception"]


async def test_init_logs_created_topics(servers: Servers, tmp_path: Path) -> None:
    ended = await Service(servers, tmp_path, environment=JSON).run("init")
    assert any("topics" in line["event"] for line in lines_of(ended.stdout + ended.stderr))


@pytest.mark.parametrize("format", ["json", "console"])
def test_addresses_are_logged_without_secrets(tmp_path: Path, format: str) -> None:
    program = f'''
import logging, structlog
from plaudit.config import LogSettings
from plaudit.processes.logs import configure_logs
configure_logs(LogSettings(format="{format}"))
address = "https://me:pass-of-user@keys.example.com/jwks?code=pass-of-query"
structlog.get_logger().warning("the keys can't be fetched", url=address)
logging.getLogger("library").error("no answer of %s", address)
try:
    raise ValueError(address)
except ValueError:
    structlog.get_logger().exception("failed")
'''
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert ended.stderr.count("keys.example.com/jwks") == 3
    assert "pass-of" not in ended.stderr


def test_output_of_python_itself_is_logged(tmp_path: Path) -> None:
    program = """
import asyncio, gc, logging, threading, warnings
import faststream.kafka
from plaudit.config import LogSettings
from plaudit.processes.logs import configure_logs
configure_logs(LogSettings(format="json"))
logging.getLogger("faststream").error("of FastStream")
logging.getLogger("aiokafka.client").error("of aiokafka")
logging.getLogger("uvicorn.error").error("of uvicorn")
logging.getLogger("odd").error("%s and %s", "one")
warnings.warn("careful")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
class Odd:
    def __del__(self): raise ValueError("at its end")
Odd()
async def main():
    async def fails(): raise RuntimeError("nobody looks")
    task = asyncio.create_task(fails())
    await asyncio.sleep(0); await asyncio.sleep(0)
    del task; gc.collect()
asyncio.run(main())
raise KeyError("last")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    lines = lines_of(ended.stdout + ended.stderr)
    assert [line["logger"] for line in lines] == [
        *("faststream", "aiokafka.client", "uvicorn.error", "odd", "py.warnings"),
        *("plaudit", "plaudit", "asyncio", "plaudit"),
    ]
    exceptions = [line.get("exception", "") for line in lines[-4:]]
    for error, text in zip(("ZeroDivisionError", "ValueError", "RuntimeError", "KeyError"), exceptions, strict=True):
        assert error in text


@pytest.mark.kafka
async def test_database_refusal_is_logged_without_customer_text(own_service: Service, product: str) -> None:
    async with own_service.mongo() as database:
        # A validation rule that somebody else has created.
        await database.command("collMod", "reviews", validator={"approvedBySomebodyElse": {"$exists": True}})
    review = submission(product, review="Written by a customer", userName="Anna Berg")
    await own_service.publish("review-submissions", message(review, product))
    (letter,) = await own_service.letters("review-submissions", product, 1)
    error_message = dict(letter.headers)["x-error-message"].decode()
    assert "Document failed validation" in error_message
    log = await eventually(lambda: own_service.log("worker"), lambda log: "Document failed validation" in log)
    for text in (error_message, log):
        assert "Written by a customer" not in text
        assert "Anna Berg" not in text
