"""`plaudit keys`: creates, lists and revokes API keys."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from api.auth.api_keys import PATTERN, REMEMBERED_SECONDS, secret_digest
from api.callers import shown_key
from domain.permissions import Caller, Permission
from domain.timestamps import timestamp
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.terminal import Terminal, discard_output, errors, shown
from plaudit.tools.servers import reached
from storage.keys import ApiKey, ApiKeyRepository
from storage.stores import StoreRepository


async def create_key(
    settings: Settings,
    out: Terminal,
    client: str,
    permissions: Sequence[Permission],
    stores: Sequence[str] | None,
    days: int | None,
) -> None:
    """Store a key and print it, which can't be repeated. `days` None: it never expires.

    Raises CommandError if it can't be printed: it is removed again, so that no key is valid that nobody has seen.
    """
    now = datetime.now(UTC)
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    caller = Caller(client, frozenset(permissions), frozenset(stores) if stores else None)
    expires = now + timedelta(days=days) if days is not None else None
    async with reached(settings) as (database, _):
        unknown = (caller.stores or frozenset()) - (await StoreRepository(database).of_ids(stores or ())).keys()
        keys = ApiKeyRepository(database)
        await keys.add(ApiKey(id, caller, secret_digest(secret), created=now, expires=expires))
        key = f"plaudit_{id}_{secret}"
        out.set_result({"id": id, "key": key, "expiryDate": expires and timestamp(expires)})
        try:
            out.print(key)
            out.print_result()
        except (OSError, SystemExit) as error:  # Rich exits if the reader of a pipe has gone
            discard_output()
            await keys.remove(id)
            why = error.strerror if isinstance(error, OSError) else "Broken pipe"
            raise CommandError(f"The key can't be printed ({why}), so it was removed. Create another one.") from error
    if unknown:
        errors.print(
            f"Stores that are not registered yet: {', '.join(map(shown, sorted(unknown)))}. The key has no effect "
            "there until they are."
        )


async def list_keys(settings: Settings, out: Terminal) -> None:
    """Print all keys by client and age; their secrets aren't stored."""
    async with reached(settings) as (database, _):
        keys = await ApiKeyRepository(database).all()
    now = datetime.now(UTC)
    rows = [shown_key(key, now) for key in keys]
    out.set_result(rows)
    for key, row in zip(keys, rows, strict=True):
        caller = key.caller
        expiry = f"expires {key.expires:%Y-%m-%d}" if key.expires else "never expires"
        out.print(f"{key.id}  {shown(caller.subject or '')}  created {key.created:%Y-%m-%d}, {expiry}: {row['state']}")
        out.print(f"  in {'all stores' if caller.stores is None else ', '.join(map(shown, sorted(caller.stores)))}")
        out.print(f"  may {', '.join(sorted(caller.permissions))}")
    if not keys:
        out.print("There are no keys.")


async def revoke_key(settings: Settings, out: Terminal, id: str) -> None:
    """Revoke a key by its id, or by the key itself, as a leaked one is found. Raises CommandError: it doesn't exist."""
    if key := PATTERN.fullmatch(id.strip()):
        id = key[1]
    async with reached(settings) as (database, _):
        if not await ApiKeyRepository(database).revoke(id, datetime.now(UTC)):
            raise CommandError(f"There is no key {id}. `plaudit keys list` shows all.")
    out.set_result({"revoked": id, "noticedWithinSeconds": REMEMBERED_SECONDS})
    out.print(f"Revoked. It takes effect within {REMEMBERED_SECONDS:.0f} s.")
