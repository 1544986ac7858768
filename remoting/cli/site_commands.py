"""`busbar site`: where nodes stand."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.completion import names
from remoting.cli.output import Output, client, show, show_one

site_app = typer.Typer(
    no_args_is_help=True, help="Where nodes stand; requests may ask for it with --label site=NAME."
)
SiteName = Annotated[str, typer.Argument(autocompletion=names("sites"))]
SITE_COLUMNS = ["name", "notes", "id"]


@site_app.command("list")
def site_list(output: Output = "table") -> None:
    """All sites."""
    show(client().items("sites"), SITE_COLUMNS, output, ["created_at"])


@site_app.command("create")
def site_create(name: str, notes: str = "") -> None:
    """Makes a site; `busbar node set NODE --site NAME` puts a node there."""
    typer.echo(client().request("POST", "sites", {"name": name, "notes": notes})["id"])


@site_app.command("set")
def site_set(
    name: SiteName,
    new_name: Annotated[str | None, typer.Option("--name")] = None,
    notes: str | None = None,
    output: Output = "table",
) -> None:
    """Changes what is given and nothing else."""
    api = client()
    given = {
        key: value for key, value in {"name": new_name, "notes": notes}.items() if value is not None
    }
    show_one(
        api.request("PATCH", f"sites/{api.named('sites', name)['id']}", given), SITE_COLUMNS, output
    )


@site_app.command("delete")
def site_delete(name: SiteName) -> None:
    """Refused while nodes stand there."""
    api = client()
    api.request("DELETE", f"sites/{api.named('sites', name)['id']}")
