"""Kafka and MongoDB with authentication over TLS, and certificates made for the test."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from devservers.kafka import KafkaProcess, KafkaRuntime
from devservers.kafka_setup import set_up_kafka
from devservers.mongo import REPLICA_SET, MongoProcess
from devservers.ports import HOST
from devservers.server import accepts_connections

from .sockets import listening
from .waiting import eventually

ADMIN, SERVICE = "admin", "plaudit"
PASSWORDS = {ADMIN: "pass-of-admin", SERVICE: "pass-of-service"}


@dataclass
class Certificates:
    """A certificate authority, a server certificate, and the service's client certificate."""

    folder: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    def __post_init__(self) -> None:
        self.ca = self._file("ca.pem", self.authority.cert_pem.bytes())
        server = self.authority.issue_cert(HOST, "localhost")
        self.server = self._file("server.pem", _key_and_chain(server))
        client = self.authority.issue_cert(
            "service.shop.test", common_name="service", organization_name="Shop", organization_unit_name="Reviews"
        )
        self.client = self._file("client.pem", _key_and_chain(client))
        certificate = x509.load_pem_x509_certificate(client.cert_chain_pems[0].bytes())
        self.client_subject = certificate.subject.rfc4514_string()
        self.strangers_ca = self._file("stranger.pem", trustme.CA().cert_pem.bytes())

    def _file(self, name: str, content: bytes) -> Path:
        file = self.folder / name
        file.write_bytes(content)
        return file


def _key_and_chain(certificate: trustme.LeafCert) -> bytes:
    # Kafka reads keys only in this format.
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(part.bytes() for part in certificate.cert_chain_pems)


Right = tuple[ResourceType, str, AclOperation]
"""Resource type, name prefix and allowed operation."""


class SecureKafka(KafkaProcess):
    """A broker that accepts only SASL over TLS and enforces ACLs."""

    def __init__(self, folder: Path, runtime: KafkaRuntime, certificates: Certificates) -> None:
        super().__init__(folder / "kafka", folder / "kafka.log", runtime)
        self._certificates = certificates

    def _settings(self) -> dict[str, str | int]:
        modules = "org.apache.kafka.common.security"
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        plain = f'{modules}.plain.PlainLoginModule required username="{ADMIN}" password="{PASSWORDS[ADMIN]}" {users};'
        settings = super()._settings()
        return settings | {
            "listeners": str(settings["listeners"]).replace("PLAINTEXT://", "CLIENTS://"),
            "advertised.listeners": str(settings["advertised.listeners"]).replace("PLAINTEXT://", "CLIENTS://"),
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.clients.plain.sasl.jaas.config": plain,
            "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            "listener.name.clients.oauthbearer.sasl.jaas.config": (
                f'{modules}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{ADMIN}";'
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificates.ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # The controller of this single node connects to itself.
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
        }

    def admin(self) -> AdminClient:
        """A client with all rights."""
        return AdminClient(
            {
                "bootstrap.servers": self.address,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": ADMIN,
                "sasl.password": PASSWORDS[ADMIN],
                "ssl.ca.location": str(self._certificates.ca),
            }
        )

    async def add_scram_user(self) -> None:
        """Add SCRAM credentials of the service."""
        admin = self.admin()  # held until it is done
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4_096)
            alteration = UserScramCredentialUpsertion(SERVICE, credential, PASSWORDS[SERVICE].encode())
            for future in admin.alter_user_scram_credentials([alteration]).values():
                await asyncio.to_thread(future.result, 30)

    async def grant(self, *rights: Right) -> None:
        """Allow the service these operations."""
        await self._add_rules(AclPermissionType.ALLOW, *rights)

    async def deny(self, *rights: Right) -> None:
        """Deny the service these operations; that overrides grants."""
        await self._add_rules(AclPermissionType.DENY, *rights)

    async def _add_rules(self, permission: AclPermissionType, *rights: Right) -> None:
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL if kind is ResourceType.BROKER else ResourcePatternType.PREFIXED,
                f"User:{SERVICE}",
                "*",
                operation,
                permission,
            )
            for kind, name, operation in rights
        ]
        admin = self.admin()
        for future in admin.create_acls(bindings).values():
            await asyncio.to_thread(future.result, 30)


def rights_in_kafka(prefix: str) -> list[Right]:
    """The minimum rights of the service if an administrator has created the topics (`plaudit init`)."""
    return [
        (ResourceType.TOPIC, prefix, AclOperation.READ),
        (ResourceType.TOPIC, prefix, AclOperation.WRITE),
        (ResourceType.TOPIC, prefix, AclOperation.DESCRIBE),
        (ResourceType.TOPIC, prefix, AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, prefix, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, prefix, AclOperation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, prefix, AclOperation.DESCRIBE),
    ]


class SecureMongo(MongoProcess):
    """A mongod that accepts only TLS and requires authentication."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder / "mongo", folder / "mongod.log", cache_gb=0.25)
        self._certificates = certificates
        self._key_file = folder / "mongo-key"
        self._key_file.write_text(base64.b64encode(b"k" * 60).decode())
        self._key_file.chmod(0o600)

    def _command(self) -> Sequence[str | Path]:
        return [
            *super()._command(),
            *("--auth", "--keyFile", self._key_file),
            *("--tlsMode", "requireTLS", "--tlsCertificateKeyFile", self._certificates.server),
            *("--tlsCAFile", self._certificates.ca, "--tlsAllowConnectionsWithoutCertificates"),
        ]

    async def _serves(self) -> bool:
        return await accepts_connections(self.port)

    def client(self, **options: Any) -> AsyncMongoClient[dict[str, Any]]:
        return AsyncMongoClient(
            HOST, self.port, directConnection=True, tls=True, tlsCAFile=str(self._certificates.ca), **options
        )

    def administrator(self) -> AsyncMongoClient[dict[str, Any]]:
        """A client with all rights."""
        return self.client(username=ADMIN, password=PASSWORDS[ADMIN])

    async def set_up(self) -> None:
        """Initiate the replica set and create its administrator. Without users, MongoDB allows that from this
        machine."""
        async with self.client() as client:
            members = [{"_id": 0, "host": self.address}]
            await client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})

            async def is_primary() -> bool:
                try:
                    return bool((await client.admin.command("hello"))["isWritablePrimary"])
                except PyMongoError:
                    return False

            await eventually(is_primary)
            await client.admin.command("createUser", ADMIN, pwd=PASSWORDS[ADMIN], roles=["root"])

    def url(self, user: str = SERVICE, *, by_certificate: bool = False, ca: Path | None = None) -> str:
        """The URI for the service, or for another user."""
        ca = ca or self._certificates.ca
        common = f"replicaSet={REPLICA_SET}&tls=true&tlsCAFile={ca}"
        if by_certificate:
            mechanism = f"authMechanism=MONGODB-X509&tlsCertificateKeyFile={self._certificates.client}"
            return f"mongodb://{self.address}/?{common}&{mechanism}"
        return f"mongodb://{user}:{PASSWORDS[user]}@{self.address}/?{common}&authSource=admin"


@dataclass(frozen=True)
class SecureServers:
    """Both servers and their certificates."""

    kafka: SecureKafka
    mongo: SecureMongo
    certificates: Certificates


@asynccontextmanager
async def secure_servers(folder: Path) -> AsyncIterator[SecureServers]:
    certificates = Certificates(folder)
    runtime = await set_up_kafka(print)
    async with SecureKafka(folder, runtime, certificates) as kafka, SecureMongo(folder, certificates) as mongo:
        await mongo.set_up()
        await kafka.add_scram_user()
        yield SecureServers(kafka, mongo, certificates)


@asynccontextmanager
async def token_endpoint() -> AsyncIterator[str]:
    """An OAuth endpoint that issues unsigned tokens to the service, as the test's broker accepts them. Yields its
    address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        basic = base64.b64encode(f"{SERVICE}:{PASSWORDS[SERVICE]}".encode()).decode()
        now = int(time.time())
        parts = ({"alg": "none"}, {"sub": SERVICE, "iat": now, "exp": now + 600, "scope": "kafka"})
        token = ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "."
        is_known = basic.lower() in head
        body = json.dumps({"access_token": token, "expires_in": 600} if is_known else {"error": "invalid_client"})
        status = "200 OK" if is_known else "401 Unauthorized"
        answer = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
        writer.write(answer.encode())
        writer.close()

    async with listening(serve) as port:
        yield f"http://{HOST}:{port}/token"
