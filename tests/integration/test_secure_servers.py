"""TLS, SASL and least privileges, against real servers: these suffice, and missing ones are reported."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka.errors import KafkaError
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType

from devservers.errors import MissingPartError
from devservers.kafka_setup import set_up_kafka
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaAccess, KafkaConnection
from messaging.kafka.lag import ConsumerLag
from messaging.topics import Topic, TopicLayout, TopicNames, create_topics
from tests.support.facade import REVIEWS, facade_of, new_id, submission
from tests.support.service import PARTITIONS, Servers, Service
from tests.support.tls_servers import (
    ADMIN,
    PASSWORDS,
    SERVICE,
    SecureServers,
    rights_in_kafka,
    secure_servers,
    token_endpoint,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
async def secure(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecureServers]:
    try:
        await set_up_kafka(print)
    except MissingPartError as missing:
        pytest.skip(f"Apache Kafka can't run here. {missing}")
    async with secure_servers(tmp_path_factory.mktemp("secure")) as servers:
        yield servers


def _service(secure: SecureServers, folder: Path, uri: str, user: str = SERVICE, **kafka: str) -> Service:
    service = Service(Servers(secure.kafka.address, uri, is_tansu=False), folder)
    settings = {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_USERNAME": user,
        "SASL_PASSWORD": PASSWORDS[user],
        "TLS_CA_FILE": str(secure.certificates.ca),
        **kafka,
    }
    service.environment |= {f"PLAUDIT_KAFKA__{name}": value for name, value in settings.items()}
    return service


async def _add_user(secure: SecureServers, name: str, database: str, **options: Any) -> None:
    """Create or update a MongoDB user who may only read and write the database of a service."""
    where = "$external" if name != SERVICE else "admin"
    async with secure.mongo.administrator() as client:
        roles = [{"role": "readWrite", "db": database}]
        existing = await client[where].command("usersInfo", name)
        if existing["users"]:
            await client[where].command("updateUser", name, roles=roles)
        else:
            await client[where].command("createUser", name, roles=roles, **options)


async def _rate(service: Service) -> None:
    """Submit, approve and rate a review."""
    async with facade_of(service) as facade:
        product = new_id()
        await facade.submit_approved(submission(product, 4))
        assert await facade.rating(product) == (4.0, 1)


async def _run(service: Service) -> None:
    async with service.running():
        await _rate(service)


async def _initialise(secure: SecureServers, service: Service) -> None:
    """Create topics and indexes as an administrator."""
    administrator = Service(
        Servers(secure.kafka.address, secure.mongo.url(ADMIN), False), service.folder, prefix=service.prefix
    )
    administrator.environment |= {
        **service.environment,
        "PLAUDIT_KAFKA__SASL_MECHANISM": "PLAIN",
        "PLAUDIT_KAFKA__SASL_USERNAME": ADMIN,
        "PLAUDIT_KAFKA__SASL_PASSWORD": PASSWORDS[ADMIN],
    }
    await administrator.run("init")


async def _restricted(
    secure: SecureServers, folder: Path, missing: tuple[Any, Any] | None = None, **kafka: str
) -> Service:
    """Create a service with exactly the permissions that it needs, or without one of those in Kafka."""
    service = _service(secure, folder, secure.mongo.url(), **kafka)
    await _add_user(secure, SERVICE, service.database, pwd=PASSWORDS[SERVICE])
    await _initialise(secure, service)
    rights = rights_in_kafka(service.prefix)
    await secure.kafka.grant(*(right for right in rights if (right[0], right[2]) != missing))
    return service


async def test_scram_with_least_privileges(secure: SecureServers, tmp_path: Path) -> None:
    await _run(await _restricted(secure, tmp_path, SASL_MECHANISM="SCRAM-SHA-256"))
    for name in ("api", "worker"):
        assert "pass-of" not in (tmp_path / f"{name}.log").read_text()


async def test_password_and_client_certificate(secure: SecureServers, tmp_path: Path) -> None:
    service = _service(secure, tmp_path, secure.mongo.url(by_certificate=True), ADMIN, SASL_MECHANISM="PLAIN")
    await _add_user(secure, secure.certificates.client_subject, service.database)
    await _run(service)


async def test_oauth_tokens(secure: SecureServers, tmp_path: Path) -> None:
    async with token_endpoint() as url:
        await _run(await _restricted(secure, tmp_path, SASL_MECHANISM="OAUTHBEARER", SASL_TOKEN_URL=url))


async def test_topics_grow_only_with_permission(secure: SecureServers, tmp_path: Path) -> None:
    service = await _restricted(secure, tmp_path, SASL_MECHANISM="SCRAM-SHA-512")

    async def refused() -> str:
        return (await service.run("topics", "grow", f"{2 * PARTITIONS}", code=1)).stderr

    # A broker applies new permissions after a moment, and hides all topics until then.
    stderr = await eventually(refused, lambda stderr: "There is no topic" not in stderr)
    assert "Nothing was changed. Grant the permission ALTER" in stderr
    assert "Traceback" not in stderr
    async with secure.mongo.administrator() as client:
        topics = client[service.database]["topics"]
        assert await topics.count_documents({}) == 0
        may_alter = (ResourceType.TOPIC, service.prefix, AclOperation.ALTER)
        await secure.kafka.grant(*rights_in_kafka(service.prefix), may_alter)
        growing = asyncio.create_task(service.run("topics", "grow", f"{2 * PARTITIONS}", code=1))
        await eventually(lambda: topics.count_documents({"to": 2 * PARTITIONS}), lambda count: count > 0)
        await secure.kafka.deny(may_alter)
        stderr = (await growing).stderr
        assert "Kafka refuses more partitions" in stderr
        given_up = await topics.find({}, {"_id": False}).to_list()
        assert given_up
        assert all((each["count"], each["to"]) == (PARTITIONS, None) for each in given_up)


@contextmanager
def _killed_afterwards(service: Service) -> Iterator[None]:
    """Kill all processes after the block: their shutdown while servers refuse them isn't under test."""
    try:
        yield
    finally:
        for process in service.processes.values():
            process.kill()
            process.wait(60)


async def _until_doctor_reports(service: Service, *patterns: str, code: int | None = 1) -> None:
    """Wait until the doctor reports all of these: if a server is stalled for seconds, it reports only that."""

    async def output() -> str:
        result = await service.run("doctor", code=code)
        assert "pass-of" not in result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        return result.stdout

    await eventually(output, lambda text: all(re.search(each, text, re.MULTILINE) for each in patterns))


async def test_servers_of_unknown_ca_are_not_trusted(secure: SecureServers, tmp_path: Path) -> None:
    stranger = secure.certificates.strangers_ca
    service = _service(secure, tmp_path, secure.mongo.url(ca=stranger), TLS_CA_FILE=str(stranger))
    await _until_doctor_reports(service, "CERTIFICATE_VERIFY_FAILED", "fail kafka")


async def test_wrong_password_is_reported(secure: SecureServers, tmp_path: Path) -> None:
    uri = secure.mongo.url().replace(PASSWORDS[SERVICE], "pass-of-nobody")
    service = _service(secure, tmp_path, uri, SASL_MECHANISM="SCRAM-SHA-512", SASL_PASSWORD="pass-of-nobody")
    await _until_doctor_reports(
        service, "Authentication failed", r"^fail kafka +does not answer: .*SaslAuthenticationFailed"
    )


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        # Either of the topic, or of the cluster (for an idempotent producer).
        ((ResourceType.TOPIC, AclOperation.WRITE), "AuthorizationFailed"),
        ((ResourceType.TOPIC, AclOperation.READ), "TopicAuthorizationFailed"),
        ((ResourceType.GROUP, AclOperation.READ), "GroupAuthorizationFailed"),
    ],
)
async def test_missing_kafka_permission_is_reported_and_awaited(
    secure: SecureServers, tmp_path: Path, missing: tuple[Any, Any], says: str
) -> None:
    service = await _restricted(secure, tmp_path, missing, SASL_MECHANISM="SCRAM-SHA-512")
    with _killed_afterwards(service):
        service.start("worker")
        service.start("api")

        async def is_reported() -> bool:
            if missing[1] is AclOperation.WRITE:
                async with service.client() as http:
                    try:
                        status = (await http.post(REVIEWS, json=[submission(new_id())])).status_code
                    except httpx.TransportError:
                        return False
                    return status == 503 and says in service.log("api")
            return says in service.log("worker")

        await eventually(is_reported)
        # Once the permission is granted, processing continues by itself, and nothing was lost.
        await secure.kafka.grant(*rights_in_kafka(service.prefix))
        await service.until_ready()
        await _rate(service)


async def test_topic_that_is_not_shown_has_no_lag_of_zero(secure: SecureServers) -> None:
    names = TopicNames(f"{new_id()}.")
    password = KafkaAccess(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=SERVICE,
        sasl_password=PASSWORDS[SERVICE],
        tls_ca_file=secure.certificates.ca,
    )
    await secure.kafka.grant(*rights_in_kafka(names.prefix), (ResourceType.TOPIC, names.prefix, AclOperation.CREATE))
    connection = KafkaConnection(secure.kafka.address, password)

    async def is_created() -> bool:
        async with admin_client(connection) as admin:
            await create_topics(admin, names, TopicLayout(), {})
            return names.name(Topic.EVENTS) in await admin.list_topics()

    await eventually(is_created)
    await secure.kafka.deny((ResourceType.TOPIC, names.name(Topic.REVIEW_CHANGES), AclOperation.DESCRIBE))

    async def error() -> str:
        async with ConsumerLag(connection, names, timeout=60) as lag:
            try:
                await lag.measure()
            except KafkaError as refused:
                return str(refused)
            return ""

    await eventually(error, lambda text: names.name(Topic.REVIEW_CHANGES) in text)


async def test_missing_database_permission_is_reported(secure: SecureServers, tmp_path: Path) -> None:
    service = _service(secure, tmp_path, secure.mongo.url(), SASL_MECHANISM="SCRAM-SHA-512")
    await _add_user(secure, SERVICE, "another_database", pwd=PASSWORDS[SERVICE])
    await secure.kafka.grant(*rights_in_kafka(service.prefix))
    with _killed_afterwards(service):
        service.start("worker")
        await eventually(lambda: "not authorized on" in service.log("worker"))


async def test_api_needs_to_read_and_create_indexes(secure: SecureServers, tmp_path: Path) -> None:
    service = _service(secure, tmp_path, secure.mongo.url(), SASL_MECHANISM="SCRAM-SHA-512")
    await _initialise(secure, service)
    await secure.kafka.grant(*rights_in_kafka(service.prefix))
    role = f"facade-{service.database}"
    async with secure.mongo.administrator() as client:
        # The index of an earlier version: the API may not drop it, and needn't.
        await client[service.database]["returns"].create_index("number", name="number")
        resource = {"db": service.database, "collection": ""}
        await client.admin.command(
            "createRole",
            role,
            privileges=[{"resource": resource, "actions": ["createIndex"]}],
            roles=[{"role": "read", "db": service.database}],
        )
    await _add_user(secure, SERVICE, service.database, pwd=PASSWORDS[SERVICE])
    async with secure.mongo.administrator() as client:
        await client.admin.command("updateUser", SERVICE, roles=[role])
    with _killed_afterwards(service):
        service.start("api")
        await service.until_ready()
        async with facade_of(service) as facade:
            assert await facade.listed() == []
            # A broker applies new permissions after a moment, and refuses until then.
            await eventually(lambda: facade.http.post(REVIEWS, json=[submission(new_id())]), lambda got: got.is_success)
            assert await facade.get("/api/stores") == []
        assert "not authorized" not in service.log("api")


@pytest.mark.parametrize(("role", "says"), [("read", "not insert, update, remove"), ("readWrite", "read and write")])
async def test_doctor_reports_permissions_of_user(secure: SecureServers, tmp_path: Path, role: str, says: str) -> None:
    service = await _restricted(secure, tmp_path, SASL_MECHANISM="SCRAM-SHA-512")
    async with secure.mongo.administrator() as client:
        await client.admin.command("updateUser", SERVICE, roles=[{"role": role, "db": service.database}])
    await _until_doctor_reports(service, rf"^(ok  |warn) rights +the user may {says}", code=None)
