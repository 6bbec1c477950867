"""`plaudit keys`: API keys of clients of the facade."""

from typing import Annotated, Final

import typer

from domain.permissions import Permission
from messaging.callers import fault_of_name, is_printable_name
from messaging.schemas import ID_LENGTH
from plaudit.cli.command_line import AsJson, command_group, run_tool

DEFAULT_DAYS: Final = 365

app = command_group("Create, list and revoke API keys.")


def _parse_client(text: str) -> str:
    if fault := fault_of_name(text):
        raise typer.BadParameter(f"It {fault}. Use another name.")
    return text


def _parse_store(text: str) -> str:
    if not is_printable_name(text):
        raise typer.BadParameter(f"Use 1 to {ID_LENGTH} printable characters.")
    return text


@app.command()
def create(
    client: Annotated[
        str,
        typer.Argument(parser=_parse_client, help="Name of the client that uses the key; appears in the audit log."),
    ],
    permission: Annotated[list[Permission], typer.Option(help="A permission of the key; can be repeated.")],
    store: Annotated[
        list[str] | None,
        typer.Option(parser=_parse_store, help="Restrict the key to this store; can be repeated. Default: all stores."),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3_650, help=f"Days until the key expires. Default: {DEFAULT_DAYS}.")
    ] = None,
    forever: Annotated[
        bool, typer.Option("--forever", help="The key never expires; it is valid until it is revoked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is shown only once: only its hash is stored."""
    from plaudit.tools.keys import create_key

    if forever and days is not None:
        raise typer.BadParameter("Use --days or --forever, not both.")
    valid_days = None if forever else days or DEFAULT_DAYS
    run_tool(as_json, create_key, client, permission, store, valid_days)


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List all keys with permissions, stores and expiry."""
    from plaudit.tools.keys import list_keys

    run_tool(as_json, list_keys)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The key's id: the part between its two underscores; or the key.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good."""
    from plaudit.tools.keys import revoke_key

    run_tool(as_json, revoke_key, id)
