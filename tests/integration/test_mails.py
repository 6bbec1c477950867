"""Mails from commands to a mail server, sent by two mailers."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from pymongo.errors import AutoReconnect
from structlog.testing import capture_logs

from consumers.mails import consumer as consumer_module
from consumers.mails import sender as sender_module
from consumers.mails import smtp as smtp_module
from consumers.mails.consumer import MailConsumer
from consumers.mails.sender import CONNECTIONS, MailSender
from consumers.mails.smtp import SmtpServer
from domain.mails import RetryPlan
from domain.stores import Store
from messaging.decoding import PlainRecord, Received
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.mails import READER, MailCommand
from storage.database import Database, in_transaction
from storage.mails import ClaimedMail, MailRepository
from storage.outbox import COLLECTION as OUTBOX
from storage.privacy.erasures import Erasures
from storage.privacy.repository import PersonalData
from storage.repositories import Repositories
from storage.stores import StoreRepository
from storage.unit_of_work import Transactions
from tests.support.facade import Facade, new_id
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.messages import message
from tests.support.orders import order_event
from tests.support.reminders import order_with_products
from tests.support.service import Json, Service, own_database
from tests.support.waiting import eventually

SCRIPT = "<script>alert(1)</script>"
DEFAULT_SENDER = "Plaudit <no-reply@shop.example>"


@pytest.fixture(scope="module")
async def mail_server() -> AsyncIterator[MailServer]:
    async with running_mail_server() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
async def mailers(
    service: Service, mail_server: MailServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    """Two mailers beside the service of the session."""
    settings = {"HOST": "127.0.0.1", "PORT": str(mail_server.port), "RETRY_PAUSE": "0.2", "TIMEOUT": "60"}
    settings["SENDER"] = DEFAULT_SENDER
    environment = {f"PLAUDIT_SMTP__{name}": value for name, value in settings.items()}
    environment["PLAUDIT_PRIVACY__ERASURE_KEY"] = "k" * 32
    folder = tmp_path_factory.mktemp("mailers")
    mailers = Service(service.servers, folder, prefix=service.prefix, environment=environment)
    names = ("mailer-1", "mailer-2")
    try:
        for name in names:
            mailers.start("mailer", name)
        await eventually(lambda: all("mailer ready" in mailers.log(name) for name in names))
        yield mailers
    finally:
        codes = [await mailers.stop(name) for name in names]
    assert codes == [0, 0]


def address_of(name: str = "anna") -> str:
    return f"{new_id(name)}@example.com"


def mail_command(to: str, id: str | None = None, **fields: Any) -> Json:
    written = {"subject": "How do you like it?", "text": "Hello", "html": "<p>Hello</p>", "languageCode": "en"}
    order = {"storeId": "Electronics", "orderId": "o", "orderNumber": "CO1", "customerId": "anna"}
    return {
        "id": id or new_id("mail"),
        "template": "OrderReviewRequest",
        "to": to,
        "from": "shop@example.com",
        "items": [{"productId": "p", "name": "Camera"}],
        **written,
        **order,
        **fields,
    }


async def request(service: Service, *commands: Json) -> None:
    await service.publish("mail-commands", *(message(c, c["customerId"]) for c in commands))


async def test_headers_without_a_value(service: Service, mail_server: MailServer) -> None:
    good, lost = mail_command(address_of()), mail_command("nobody")
    headers = (("ce_id", None), ("traceparent", None), ("x", b"\xff"))
    await service.publish("mail-commands", *(message(c, None, headers) for c in (good, lost)))
    await until_arrived(mail_server, good["to"])
    _, headers_found = await dead_letter(service, lost["id"])
    assert headers_found["x-error-code"] == b"invalid-address"
    assert headers_found["x"] == b"\xff"


async def until_arrived(server: MailServer, to: str, count: int = 1) -> list[EmailMessage]:
    return await eventually(lambda: server.to(to), lambda found: len(found) >= count)


async def dead_letter(service: Service, id: str) -> tuple[Json, dict[str, bytes]]:
    async def letters() -> list[Any]:
        # Other tests send values that are not JSON.
        return [r for r in await service.records("mail-commands.dlq") if f'"{id}"'.encode() in r.value]

    (letter,) = await eventually(letters)
    return json.loads(letter.value), dict(letter.headers)


def part(mail: EmailMessage, kind: str) -> str:
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


async def test_reminder_uses_language_and_template_of_its_store(
    facade: Facade, service: Service, mail_server: MailServer
) -> None:
    store, to, now = new_id("store"), address_of(), datetime.now(UTC)
    await facade.open_store(store)
    await facade.command("PUT", f"/api/stores/{store}", {"name": "Foto Müller", "email": "shop@example.com"})
    template = {
        "subject": "Ihre Meinung, {{ customer.name }}?",
        "text": "Grüß Gott {{ customer.name }},\n{% for item in items -%}\n* {{ item.name }}\n{% endfor %}",
        "html": "<p>Grüß Gott {{ customer.name }}</p>{{ items | map: 'name' | join: ', ' }}",
    }
    path = f"/api/notificationTemplates/OrderReviewRequest?storeId={store}&languageCode=de"
    await facade.command("PUT", path, template)
    customer = {"customerName": SCRIPT, "customerEmail": to, "languageCode": "de-AT"}
    items = [{"id": "1", "productId": "p1", "name": "Kamera & Stativ", "quantity": 1, "price": 1}]
    due = now - timedelta(days=11)
    order = order_with_products("Complete", new_id("c"), store, due, items=items, **customer)
    await facade.command("PUT", "/api/settings", {"reminder": {"enabled": True}})
    try:
        await service.publish("order-events", order_event(order))
        await eventually(partial(service.find, "orders", order["id"]))
        await service.run("reminders", "run")
    finally:
        await facade.command("PUT", "/api/settings", {"reminder": {"enabled": False}})
    (mail,) = await until_arrived(mail_server, to)
    assert mail["Subject"] == f"Ihre Meinung, {SCRIPT}?"
    assert mail["From"] == "shop@example.com"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert now.replace(microsecond=0) <= parsedate_to_datetime(mail["Date"]) <= datetime.now(UTC)
    assert mail.get_content_type() == "multipart/alternative"
    assert part(mail, "plain") == f"Grüß Gott {SCRIPT},\n* Kamera & Stativ\n"
    assert part(mail, "html").strip() == "<p>Grüß Gott &lt;script&gt;alert(1)&lt;/script&gt;</p>Kamera &amp; Stativ"


async def test_repeated_command_sends_no_second_mail(service: Service, mail_server: MailServer) -> None:
    to, later = address_of(), address_of()
    command = mail_command(to)
    await request(service, command, command)
    await until_arrived(mail_server, to)
    # One customer is in one partition: once the later mail has arrived, the repeats have been processed.
    await request(service, command, {**command, "subject": "changed"}, mail_command(later))
    await until_arrived(mail_server, later)
    assert len(mail_server.to(to)) == 1
    kept = await eventually(partial(service.find, "mails", command["id"]), lambda kept: kept["state"] == "sent")
    assert set(kept) == {"_id", "state", "doneAt", "acceptedAt", "attempts", "firstAttemptAt"}


@pytest.mark.long
async def test_mail_older_than_erasure_of_its_person_is_rejected(
    service: Service, mailers: Service, mail_server: MailServer
) -> None:
    anna, before, later = new_id("anna"), datetime.now(UTC), address_of()
    await mailers.run("privacy", "erase", "--customer", anna, "--yes")
    old, owed, ahead, new = (mail_command(to, customerId=anna) for to in (*(address_of() for _ in range(3)), later))
    # As if mailers or Kafka had been unavailable: by its record the second one is younger. The third one is from a
    # scheduler whose clock is ahead.
    made = (("ce_time", before.isoformat().encode()),)
    now = datetime.now(UTC)
    at, soon, much_later = (
        int(each.timestamp() * 1000) for each in (before, now + timedelta(seconds=50), now + timedelta(minutes=2))
    )
    await service.publish(
        "mail-commands",
        message(old, anna)._replace(timestamp=at),
        message(owed, anna, made),
        message(ahead, anna)._replace(timestamp=soon),
        message(new, anna)._replace(timestamp=much_later),
    )
    await request(service, old)
    await until_arrived(mail_server, later)
    for command in (old, owed, ahead):
        assert not mail_server.to(command["to"])
        kept = await eventually(partial(service.find, "mails", command["id"]))
        assert {name: kept[name] for name in set(kept) - {"doneAt"}} == {
            "_id": command["id"],
            "state": "rejected",
            "code": "erased",
        }


@pytest.mark.long
async def test_two_mailers_send_each_mail_once(service: Service, mailers: Service, mail_server: MailServer) -> None:
    async def connections_of_many() -> int:
        connections = mail_server.connections
        tos = [address_of(f"many-{index}") for index in range(60)]
        await request(service, *(mail_command(to, customerId=new_id("c")) for to in tos))
        for to in tos:
            assert len(await until_arrived(mail_server, to)) == 1
        return mail_server.connections - connections

    # There are more connections when mails come one by one.
    await eventually(connections_of_many, lambda connections: connections < 30)

    async def has_sent(name: str) -> bool:
        if "mail sent" in mailers.log(name):
            return True
        # A delayed mailer has found nothing left to send.
        await connections_of_many()
        return False

    for name in ("mailer-1", "mailer-2"):
        await eventually(partial(has_sent, name))
        assert "example.com" not in mailers.log(name)


async def test_temporary_refusal_is_retried(service: Service, mail_server: MailServer) -> None:
    to = address_of()
    mail_server.answers[to] = ["451 later", "452 full"]
    await request(service, mail_command(to))
    (mail,) = await until_arrived(mail_server, to)
    assert mail["Message-ID"]
    assert mail_server.attempts[to] == 3


@pytest.mark.parametrize("at", ["recipient", "data"])
async def test_permanent_refusal_becomes_dead_letter(service: Service, mail_server: MailServer, at: str) -> None:
    to = address_of()
    if at == "recipient":
        mail_server.refusals[to] = "550 no such mailbox"
    else:
        mail_server.answers[to] = ["554 no such mailbox"]
    command = mail_command(to)
    await request(service, command)
    value, headers = await dead_letter(service, command["id"])
    assert value == command
    assert headers["x-error-code"] == b"mail-rejected"
    assert b"no such mailbox" in headers["x-error-message"]
    assert headers["x-source-topic"].decode() == service.topic("mail-commands")
    assert mail_server.attempts[to] == 1
    kept = await service.find("mails", command["id"])
    assert (kept["state"], kept["code"]) == ("rejected", "mail-rejected")
    assert "record" not in kept
    # Sent again deliberately, as `plaudit dlq replay` does.
    mail_server.refusals.pop(to, None)
    await request(service, command)
    await until_arrived(mail_server, to)


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": "nobody"},
        {"to": "a@example.com, b@example.com"},
        {"to": "a@example.com\r\nBcc: b@example.com"},
        {"from": "shop@"},
        {"html": None},
    ],
    ids=str,
)
async def test_invalid_mail_becomes_dead_letter(service: Service, mail_server: MailServer, wrong: Json) -> None:
    to = address_of()
    command = {**mail_command(address_of()), **wrong}
    await request(service, command, mail_command(to))
    _, headers = await dead_letter(service, command["id"])
    assert headers["x-error-code"] == (b"invalid-message" if "html" in wrong else b"invalid-address")
    await until_arrived(mail_server, to)


async def test_unavailable_mail_server_is_awaited(service: Service, mail_server: MailServer) -> None:
    await mail_server.until_left()
    await mail_server.stop()
    to = address_of()
    command = mail_command(to)
    try:
        await request(service, command)
        await eventually(partial(service.find, "mails", command["id"]), lambda kept: "code" in kept)
    finally:
        await mail_server.start()
    await until_arrived(mail_server, to)
    assert (await service.find("mails", command["id"]))["attempts"] > 1


async def test_names_and_lines_arrive_unchanged(service: Service, mail_server: MailServer) -> None:
    to = address_of()
    text = "Zeile 1\n.\n.. Punkte\n" + "x" * 2_000 + "\n€ 漢字\n"
    command = mail_command(
        f"Größe Ünal <{to}>",
        **{"from": "Foto Müller <shop@müller.example>", "text": text},
        subject="Grüße\r\nBcc: x@example.com " + "€" * 200,
    )
    await request(service, command)
    (mail,) = await until_arrived(mail_server, to)
    assert mail["To"].addresses[0].display_name == "Größe Ünal"
    assert mail["From"].addresses[0].display_name == "Foto Müller"
    assert mail["From"].addresses[0].addr_spec == "shop@xn--mller-kva.example"
    assert mail["Subject"] == "Grüße Bcc: x@example.com " + "€" * 200
    assert mail["Bcc"] is None
    assert part(mail, "plain") == text


@dataclass(frozen=True)
class OwnMails:
    """Mails in a database that no mailer uses."""

    service: Service
    server: MailServer
    database: Database
    mails: MailRepository

    def record(self, command: Json, at: datetime) -> PlainRecord:
        milliseconds, value = int(at.timestamp() * 1_000), json.dumps(command).encode()
        return PlainRecord(self.service.topic("mail-commands"), 1, 7, milliseconds, b"k", value, ())

    def received(self, command: Json, at: datetime) -> Received[MailCommand]:
        record = self.record(command, at)
        return Received(record, READER(record.value or b""))

    async def accept(self, *commands: Json, at: datetime, made: datetime | None = None) -> None:
        await self.mails.accept({each["id"]: self.record(each, made or at) for each in commands}, at)

    async def claimed(self, at: datetime) -> ClaimedMail:
        """Claim the mail that is due, for ten minutes."""
        mail = await self.mails.claim(at, at + timedelta(minutes=10))
        assert mail is not None
        return mail

    async def reject(self, mail: ClaimedMail, at: datetime) -> bool:
        return await in_transaction(
            self.database, lambda session: self.mails.reject(mail, at, "mail-rejected", session)
        )

    async def kept(self, id: str) -> Json:
        return await self.database["mails"].find_one({"_id": id}) or {}

    @asynccontextmanager
    async def sending(
        self,
        plan: RetryPlan | None = None,
        *,
        mails: MailRepository | None = None,
        stores: StoreRepository | None = None,
        default: str | None = DEFAULT_SENDER,
    ) -> AsyncIterator[None]:
        """Send the mails within the block, in the name of their stores or by default of this sender."""
        publisher = Publisher(KafkaConnection(self.service.servers.kafka, idempotence=False))
        transactions = Transactions(self.database, Repositories(self.database), publisher.publish)
        server = SmtpServer("127.0.0.1", self.server.port, timeout=60)
        stores = stores or StoreRepository(self.database)
        sender = MailSender(transactions, mails or self.mails, server, plan or RetryPlan(), stores, default)
        running = asyncio.create_task(sender.run())
        try:
            yield
        finally:
            await sender.stop(running)
            await publisher.stop()


@pytest.fixture
async def own(service: Service, mail_server: MailServer) -> AsyncIterator[OwnMails]:
    async with own_database(service.servers) as database:
        yield OwnMails(service, mail_server, database, MailRepository(database))


async def test_mail_of_dead_mailer_is_sent_by_another(own: OwnMails) -> None:
    now, later = datetime.now(UTC), datetime.now(UTC) + timedelta(minutes=11)
    await own.accept(mail_command("a@example.com"), at=now)
    dead = await own.claimed(now)
    assert await own.mails.claim(now, later) is None
    alive = await own.claimed(later)
    assert (alive.attempts, alive.first_attempt_at, alive.record) == (2, dead.first_attempt_at, dead.record)
    # The first one was alive after all: its decisions no longer count, unless it has sent the mail.
    await own.mails.delay(dead, later, "451")
    assert not await own.reject(dead, later)
    await own.mails.mark_sent(dead, later)
    assert not await own.reject(alive, later)
    assert await own.mails.claim(later + timedelta(hours=1), later + timedelta(hours=2)) is None


class _NotingClaims(MailRepository):
    """Notes the times at which mails are claimed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.noted: list[datetime] = []

    async def claim(self, now: datetime, until: datetime, *, again: bool = True) -> ClaimedMail | None:
        self.noted.append(now)
        return await super().claim(now, until, again=again)


class _FrozenAfterClaim(MailRepository):
    """Mails of a mailer that is frozen right after a claim, for longer than that lasts: another one sends the mail."""

    async def claim(self, now: datetime, until: datetime, *, again: bool = True) -> ClaimedMail | None:
        if mail := await super().claim(now, until, again=again):
            taken_over = await super().claim(until, until + sender_module.CLAIM)
            assert taken_over is not None
            await self.mark_sent(taken_over, until)
            await asyncio.sleep(0.2)
        return mail


async def test_mailer_frozen_after_its_claim_leaves_the_mail_to_others(
    own: OwnMails, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = address_of()
    await own.accept(mail_command(to, "1"), at=datetime.now(UTC))
    monkeypatch.setattr(smtp_module, "SEND_LIMIT_S", 0.1)
    with capture_logs() as lines:
        async with own.sending(mails=_FrozenAfterClaim(own.database)):
            await eventually(lambda: any(line["event"].startswith(("mail sent", "retrying")) for line in lines))
    assert (await own.kept("1"))["state"] == "sent"
    assert own.server.to(to) == []


@pytest.mark.parametrize("hours", [1, -1])
async def test_mailer_whose_clock_is_wrong_keeps_to_the_claims_of_others(
    own: OwnMails, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """It would take over mails that others are sending, or lose its own to them, and send new ones late."""

    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=hours)

    to, others, now = address_of(), address_of(), datetime.now(UTC)
    await own.accept(mail_command(others, "1"), at=now)
    other = await own.claimed(now)
    for module in (consumer_module, sender_module):
        monkeypatch.setattr(module, "datetime", WrongClock, raising=False)
    await MailConsumer(own.mails, Erasures(own.database), lambda: None)([own.received(mail_command(to), now)])
    noting = _NotingClaims(own.database)
    async with own.sending(mails=noting):
        await until_arrived(own.server, to)
        await eventually(lambda: len(noting.noted) > CONNECTIONS + 1)
    assert all(abs(each - now) < timedelta(minutes=5) for each in noting.noted)
    assert (await own.kept("1"))["claim"] == other.token
    assert own.server.to(others) == []


async def test_repeated_old_record_does_not_send_rejected_mail(own: OwnMails) -> None:
    now, command = datetime.now(UTC), mail_command("a@example.com")
    await own.accept(command, at=now, made=now - timedelta(days=1))
    assert await own.reject(await own.claimed(now), now)
    await own.accept(command, at=now, made=now - timedelta(days=1))
    assert await own.mails.claim(now + timedelta(hours=1), now + timedelta(hours=2)) is None
    await own.accept(command, at=now, made=now + timedelta(seconds=1))
    assert (await own.claimed(now)).attempts == 1


async def test_replay_is_sent_even_with_its_rejected_record_in_the_batch(own: OwnMails) -> None:
    now, command = datetime.now(UTC), mail_command("a@example.com")
    replayed, old = [own.received(command, now + timedelta(seconds=seconds)) for seconds in (1, -1)]
    consume = MailConsumer(own.mails, Erasures(own.database), lambda: None)
    await consume([old])
    assert await own.reject(await own.claimed(datetime.now(UTC)), now)
    await consume([old, replayed, old])
    assert (await own.claimed(datetime.now(UTC))).record.timestamp == replayed.record.timestamp


async def test_erasure_while_mail_is_accepted(own: OwnMails) -> None:
    class Erasing(Erasures):
        """A record of erasures that gains one right after the first look-up."""

        async def latest(self, people: Collection[str]) -> dict[str, datetime]:
            found = await super().latest(people)
            if not found:
                await self.begin("anna", datetime.now(UTC))
                assert await PersonalData(own.database, "anna").forget_mails() == 0
            return found

    received = own.received(mail_command(address_of()), datetime.now(UTC))
    await MailConsumer(own.mails, Erasing(own.database), lambda: None)([received])
    (kept,) = await own.database["mails"].find().to_list()
    assert (kept["state"], kept["code"], "record" in kept) == ("rejected", "erased", False)


async def test_mail_without_sender(service: Service, mail_server: MailServer) -> None:
    """It is sent in the name of its store, or else of the mailer."""
    store = new_id("store")
    async with service.mongo() as database:
        await database["stores"].insert_one({"_id": store, "email": "photo@shop.example"})
    for store_id, sender in ((store, "photo@shop.example"), (new_id("store"), "no-reply@shop.example")):
        to = address_of()
        command = mail_command(to, storeId=store_id)
        del command["from"]
        await service.publish("mail-commands", message(command, to))
        (mail,) = await eventually(partial(mail_server.to, to))
        assert sender in str(mail["From"])


@pytest.mark.long
async def test_mailer_without_sender_warns_and_sends_mails_of_stores_with_one(
    service: Service, mail_server: MailServer, tmp_path: Path
) -> None:
    """One store without an address doesn't stop the mails of the others."""
    settings = {"PLAUDIT_SMTP__HOST": "127.0.0.1", "PLAUDIT_SMTP__PORT": str(mail_server.port)}
    mailer = Service(service.servers, tmp_path, environment={**settings, "PLAUDIT_SMTP__SENDER": "nobody"})
    wrong = "PLAUDIT_SMTP__SENDER: must be exactly one mail address."
    ended = await mailer.run("mailer", code=None)
    assert ended.returncode != 0
    assert wrong in ended.stderr
    assert f"fail mail server {wrong}" in " ".join((await mailer.run("doctor", code=1)).stdout.split())
    del mailer.environment["PLAUDIT_SMTP__SENDER"]
    reviewed = {"settings": {"reviewsEnabled": True}}
    async with mailer.mongo() as database:
        photo = {"_id": "photo", "email": "photo@shop.example", **reviewed}
        await database["stores"].insert_many([photo, {"_id": "audio", "email": None, **reviewed}, {"_id": "closed"}])
    missing = "Set PLAUDIT_SMTP__SENDER, the sender of mails, or give each store an `email` (missing: audio)."
    mailer.start("mailer")
    await eventually(lambda: "mailer ready" in mailer.log("mailer"))
    assert missing in mailer.log("mailer")
    assert f"warn mail server {missing}" in " ".join((await mailer.run("doctor", code=None)).stdout.split())
    command = mail_command(address_of(), storeId="photo")
    del command["from"]
    await request(mailer, command)
    (mail,) = await until_arrived(mail_server, command["to"])
    assert str(mail["From"]) == "photo@shop.example"
    assert await mailer.stop("mailer") == 0
    async with mailer.mongo() as database:
        await database["stores"].delete_one({"_id": "audio"})
    mailer.start("mailer")
    await eventually(lambda: "mailer ready" in mailer.log("mailer"))
    assert "PLAUDIT_SMTP__SENDER" not in mailer.log("mailer")
    assert await mailer.stop("mailer") == 0


async def test_silent_mail_server_is_awaited_beyond_retry_limit(own: OwnMails) -> None:
    to, pause = address_of(), timedelta(seconds=0.1)
    plan = RetryPlan(first_pause=pause, longest_pause=pause, give_up_after=timedelta())
    kept = partial(own.kept, "1")
    await own.server.stop()
    async with own.sending(plan, default=None):
        try:
            await own.accept(mail_command(to, "1"), at=datetime.now(UTC))
            await eventually(kept, lambda mail: mail["attempts"] > 1 or mail["state"] == "rejected")
        finally:
            await own.server.start()
        await eventually(kept, lambda mail: mail["state"] in ("sent", "rejected"))
        assert len(own.server.to(to)) == 1


class _AwayOnce(StoreRepository):
    """Stores in a database that is unavailable for the first look-up."""

    looks = 0

    async def get(self, id: str) -> Store | None:
        self.looks += 1
        if self.looks == 1:
            raise AutoReconnect
        return await super().get(id)


async def test_database_outage_is_not_a_mail_rejection(own: OwnMails) -> None:
    to, stores = address_of(), _AwayOnce(own.database)
    command = mail_command(to, "1")
    del command["from"]
    await own.accept(command, at=datetime.now(UTC))
    async with own.sending(RetryPlan(give_up_after=timedelta()), stores=stores):
        mail = await eventually(partial(own.kept, "1"), lambda mail: mail["state"] in ("sent", "rejected"))
    assert (mail["state"], mail["attempts"], stores.looks) == ("sent", 2, 2)
    assert len(own.server.to(to)) == 1


class _AwayAfterSending(MailRepository):
    """Mails in a database that is unavailable once `wanted` ones were sent, until `is_back`. Connections of the mailer
    notice at different times that it is back: others claim mails before the last ones record what they have sent."""

    wanted = 1
    is_back = False
    claims = 0

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.sent: set[str] = set()

    @property
    def is_away(self) -> bool:
        return len(self.sent) == self.wanted and not self.is_back

    async def claim(self, now: datetime, until: datetime, *, again: bool = True) -> ClaimedMail | None:
        if self.is_away:
            raise AutoReconnect
        self.claims += self.is_back
        return await super().claim(now, until, again=again)

    async def mark_sent(self, mail: ClaimedMail, at: datetime) -> None:
        self.sent.add(mail.id)
        is_first = self.wanted > 1 and mail.id == min(self.sent)
        if not self.is_back or (self.claims < 3 and not is_first):
            raise AutoReconnect
        await super().mark_sent(mail, at)


@pytest.mark.long
@pytest.mark.parametrize("count", [1, CONNECTIONS])
async def test_mail_sent_before_long_outage_is_not_sent_again(
    own: OwnMails, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    to, mails = address_of(), _AwayAfterSending(own.database)
    monkeypatch.setattr(sender_module, "CLAIM", timedelta(seconds=1))
    mails.wanted = count

    async def waiting() -> list[Json]:
        return await own.database["mails"].find({"state": {"$ne": "sent"}}).to_list()

    await own.accept(*(mail_command(to) for _ in range(count)), at=datetime.now(UTC))
    async with own.sending(mails=mails):
        await eventually(lambda: mails.is_away)
        await eventually(waiting, lambda found: all(each["dueAt"] < datetime.now(UTC) for each in found))
        mails.is_back = True
        await eventually(waiting, lambda found: found == [])
    assert len(own.server.to(to)) == count


@pytest.mark.long
async def test_mail_refused_for_too_long_becomes_dead_letter(own: OwnMails) -> None:
    to = address_of()
    own.server.answers[to] = ["451 later"] * 1_000
    command, now = mail_command(to), datetime.now(UTC)
    plan = RetryPlan(first_pause=timedelta(seconds=0.1), longest_pause=timedelta(seconds=1))
    async with own.sending(plan, default=None):
        await own.accept(command, at=now)
        await eventually(lambda: own.server.attempts[to], lambda attempts: attempts > 1)
        long_ago = {"$set": {"firstAttemptAt": now - plan.give_up_after}}
        await own.database["mails"].update_one({"_id": command["id"]}, long_ago)
        value, headers = await dead_letter(own.service, command["id"])
        await eventually(partial(own.database[OUTBOX].count_documents, {}), lambda owed: owed == 0)
    assert value == command
    assert headers["x-error-code"] == b"mail-undeliverable"
    assert headers["x-source-offset"] == b"7"
    assert own.server.to(to) == []
    assert own.server.attempts[to] > 2


async def test_damaged_mails_wait_and_stop_no_mailer(mailers: Service, own: OwnMails) -> None:
    """Each lacks another field, or has something else in it, as after a failed restore."""
    lost = ("record", "acceptedAt", "record.topic", "record.source", "record.key", "record.value", "record.headers")
    damages: list[Json] = [{"$unset": {name: ""}} for name in lost]
    damages += [{"$set": {name: "?"}} for name in (*lost[:2], *lost[3:], "attempts", "firstAttemptAt")]
    damages += [{"$set": {"record.headers": ["?"]}}]
    ids, good = [new_id("damaged") for _ in damages], mail_command(address_of())
    await own.accept(*(mail_command(address_of(), id) for id in ids), at=datetime.now(UTC))
    for id, damage in zip(ids, damages, strict=True):
        await own.database["mails"].update_one({"_id": id}, damage)
    async with own.service.mongo() as database:
        await database["mails"].insert_many(await own.database["mails"].find().to_list())
        await request(own.service, good)
        await until_arrived(own.server, good["to"])
        # They were due before the other.
        assert await database["mails"].count_documents({"_id": {"$in": ids}, "state": "sending"}) == len(ids)
        await database["mails"].delete_many({"_id": {"$in": ids}})
    assert [mailers.processes[name].poll() for name in ("mailer-1", "mailer-2")] == [None, None]


@pytest.mark.parametrize(
    "damage", [{"headers": [[5, b""]]}, {"headers": [["name", "?"]]}, {"source": ["0", 1, 2]}, {"source": [0]}]
)
async def test_damaged_mail_waits_and_is_logged_once(own: OwnMails, damage: Json) -> None:
    now, hour, id = datetime.now(UTC), timedelta(hours=1), new_id("damaged")
    await own.accept(mail_command(address_of(), id), at=now)
    damaged = {"$set": {f"record.{name}": each for name, each in damage.items()}}
    await own.database["mails"].update_one({"_id": id}, damaged)
    with capture_logs() as lines:
        for at in (now, now + hour):
            assert await own.mails.claim(at, at + hour) is None
    assert [line["id"] for line in lines] == [id]
