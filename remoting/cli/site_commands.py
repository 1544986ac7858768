"""The command `busbar site`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show, show_one

site_app = typer.Typer(
    no_args_is_help=True,
    help="Manage sites. A request selects a site with --label site=NAME.",
)
SiteName = Annotated[str, typer.Argument(autocompletion=complete_names("sites"))]
SITE_COLUMNS = ["name", "notes", "id"]


@site_app.command("list")
def site_list(output: Output = "table") -> None:
    """List sites."""
    show(client().items("sites"), SITE_COLUMNS, output, ["created_at"])


@site_app.command("create")
def site_create(name: str, notes: Annotated[str, typer.Option(help="Free text.")] = "") -> None:
    """Create a site and print its id. Assign nodes with `busbar node set NODE --site NAME`."""
    typer.echo(client().request("POST", "sites", {"name": name, "notes": notes})["id"])


@site_app.command("set")
def site_set(
    name: SiteName,
    new_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    notes: Annotated[str | None, typer.Option(help="Free text.")] = None,
    output: Output = "table",
) -> None:
    """Change a site. Options that are not given keep their values."""
    api = client()
    changes = {
        key: value for key, value in {"name": new_name, "notes": notes}.items() if value is not None
    }
    site = api.find_by_name("sites", name)
    show_one(api.request("PATCH", f"sites/{site['id']}", changes), SITE_COLUMNS, output)


@site_app.command("delete")
def site_delete(name: SiteName, yes: Yes = False) -> None:
    """Delete a site. Fails while nodes are assigned to it."""
    api = client()
    path = path_of(api, "sites", name)
    confirm_deletion(f"site {name}", "its notes", yes)
    api.request("DELETE", path)
