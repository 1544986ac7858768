"""The command `busbar passkey`."""

from __future__ import annotations

import typer

from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.object_ids import described, id_of, row_of
from remoting.cli.output import Output, client, show, show_one

passkey_app = typer.Typer(
    no_args_is_help=True, help="Manage your passkeys. The console's page My account adds them."
)
FIELDS = ["name", "created_at", "last_used_at", "id"]


@passkey_app.command("list")
def passkey_list(output: Output = "table") -> None:
    """List your passkeys."""
    show(client().items("passkeys"), FIELDS, output)


@passkey_app.command("rename")
def passkey_rename(passkey_id: str, name: str, output: Output = "table") -> None:
    """Rename a passkey."""
    api = client()
    path = f"passkeys/{id_of(api, 'passkeys', passkey_id)}"
    show_one(api.request("PATCH", path, {"name": name}), FIELDS, output)


@passkey_app.command("remove")
def passkey_remove(passkey_id: str, yes: Yes = False) -> None:
    """Remove a passkey. Needs a sign-in of the last 10 minutes."""
    api = client()
    row = row_of(api, "passkeys", passkey_id)
    confirm_deletion(f"passkey {described(row)}", "the sign-in with its device", yes)
    api.request("DELETE", f"passkeys/{row['id']}")
