"""The commands `busbar alarm-definition`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.api_fields import fields_of
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.field_options import field_options
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show, show_one
from remoting.cli.sheet import print_sheet

alarm_definition_app = typer.Typer(
    no_args_is_help=True, help="Manage what raises alarms, where, and what is done then."
)
PATH = "alarm-definitions"
COLUMNS = ["name", "enabled", "severity", "object_kind", "condition", "is_builtin"]
MORE = ["threshold", "site", "node", "gpu", "pool", "id"]
FIELDS = (
    *COLUMNS[1:],
    *fields_of(PATH, *COLUMNS, "webhook_secret"),
    "webhook_secret_is_set",
    "id",
)
Name = Annotated[str, typer.Argument(autocompletion=complete_names(PATH))]
definition_options = field_options(
    PATH,
    "name",
    flags={
        "enabled": "--enable/--disable",
        "enters_maintenance": "--enter-maintenance/--no-maintenance",
    },
)


@alarm_definition_app.command("list")
def definition_list(output: Output = "table") -> None:
    """List alarm definitions by name."""
    show(client().items(PATH, order="name"), COLUMNS, output, MORE)


@alarm_definition_app.command("show")
def definition_show(name: Name, output: Output = "table") -> None:
    """Show an alarm definition."""
    row = client().find_by_name(PATH, name)
    print_sheet(f"Alarm definition {name}", row, FIELDS, [], output)


@alarm_definition_app.command("create")
@definition_options
def definition_create(name: str, **values: Any) -> None:
    """Create an alarm definition, a warning without --severity, and print its id."""
    body = {"name": name, "severity": "warning"} | values
    typer.echo(client().request("POST", PATH, body)["id"])


@alarm_definition_app.command("set")
@definition_options
def definition_set(
    name: Name,
    new_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    output: Output = "table",
    **values: Any,
) -> None:
    """Change an alarm definition. Options that are not given keep their values."""
    changes = values | ({} if new_name is None else {"name": new_name})
    api = client()
    row = api.find_by_name(PATH, name)
    show_one(api.request("PATCH", f"{PATH}/{row['id']}", changes), [*COLUMNS, *MORE], output)


@alarm_definition_app.command("delete")
def definition_delete(name: Name, yes: Yes = False) -> None:
    """Delete an alarm definition and clear its alarms. Those of the product can be disabled."""
    api = client()
    path = path_of(api, PATH, name)
    confirm_deletion(f"alarm definition {name}", "its rules; its alarms are cleared", yes)
    api.request("DELETE", path)
