"""The commands `busbar alarm`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client, show, show_one
from remoting.cli.sheet import Related, page, print_sheet

alarm_app = typer.Typer(no_args_is_help=True, help="Show and acknowledge alarms.")
COLUMNS = ["raised_at", "severity", "state", "name", "object_name", "message", "id"]
FIELDS = (
    "severity",
    "state",
    "object_kind",
    "object_name",
    "path",
    "message",
    "raised_at",
    "acknowledged_at",
    "acknowledged_by",
    "cleared_at",
    "id",
)
AlarmId = Annotated[
    str,
    typer.Argument(metavar="ALARM", help="Id of the alarm, or 8 or more of its first characters."),
]


@alarm_app.command("list")
def alarm_list(
    everything: Annotated[
        bool, typer.Option("--all", help="Also alarms that are cleared.")
    ] = False,
    severity: Annotated[str, typer.Option(help="info, warning or critical.")] = "",
    state: Annotated[str, typer.Option(help="active, acknowledged or cleared.")] = "",
    path: Annotated[
        str, typer.Option(help="Path of an object or a prefix of it, for example nodes/ID.")
    ] = "",
    output: Output = "table",
) -> None:
    """List open alarms, newest first."""
    filters = {"severity": severity, "state": state, "path": path}
    filters["open"] = "" if everything or state == "cleared" else "true"
    given = {name: value for name, value in filters.items() if value}
    show(client().items("alarms", **given), COLUMNS, output)


@alarm_app.command("show")
def alarm_show(alarm: AlarmId, output: Output = "table") -> None:
    """Show an alarm with its history."""
    api = client()
    alarm = id_of(api, "alarms", alarm)
    row = api.request("GET", f"alarms/{alarm}")
    history = Related(
        "History",
        ("created_at", "kind", "actor", "message"),
        lambda: page(api, f"alarms/{alarm}/history"),
    )
    print_sheet(f"Alarm {row['name']}", row, FIELDS, [history], output)


@alarm_app.command("ack")
def alarm_ack(
    alarms: Annotated[list[str], typer.Argument(metavar="ALARM...", help="Ids of alarms.")],
    text: Annotated[str, typer.Option(help="Remark for the history of the alarm.")] = "",
    output: Output = "table",
) -> None:
    """Acknowledge alarms: they are known, and stay until their conditions end."""
    api = client()
    rows = [acknowledged(api, alarm, text) for alarm in alarms]
    if len(rows) == 1:
        show_one(rows[0], COLUMNS, output)
    else:
        show(rows, COLUMNS, output)


def acknowledged(api: rest.Api, alarm: str, text: str) -> dict[str, Any]:
    path = f"alarms/{id_of(api, 'alarms', alarm)}/acknowledge"
    row: dict[str, Any] = api.request("POST", path, {"text": text})
    return row
