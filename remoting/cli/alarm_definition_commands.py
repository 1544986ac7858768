"""The commands `busbar alarm-definition`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.amounts import parse_whole_seconds
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
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
    "notes",
    "states",
    "metric",
    "comparison",
    "threshold",
    "clear_threshold",
    "event_kind",
    "xid_class",
    "window_seconds",
    "raise_after_seconds",
    "clear_after_seconds",
    "site",
    "node",
    "gpu",
    "pool",
    "mail_users",
    "webhook_url",
    "webhook_secret_is_set",
    "script",
    "enters_maintenance",
    "id",
)


def duration(text: str) -> Any:
    return typer.Option(parser=parse_whole_seconds, metavar="DURATION", help=text)


def text(description: str) -> Any:
    return typer.Option(help=description)


Name = Annotated[str, typer.Argument(autocompletion=complete_names(PATH))]
Severity = Annotated[str | None, text("info, warning or critical.")]
ObjectKind = Annotated[str | None, text("appliance, node, gpu or allocation.")]
Condition = Annotated[
    str | None,
    text("state, metric, event, xid, certificate_age, queue_wait or idle_held."),
]
States = Annotated[
    list[str] | None, typer.Option("--state", help="State that raises it. Can be repeated.")
]
Metric = Annotated[str | None, text("Metric of a GPU, for example temperature_celsius.")]
Comparison = Annotated[str | None, text("above or below.")]
Threshold = Annotated[
    float | None, text("Limit of the metric, number of events, or seconds of the other conditions.")
]
ClearThreshold = Annotated[
    float | None, text("Limit of the metric beyond which a raised alarm stays.")
]
EventKind = Annotated[str | None, text("Kind of events, for example node.unreachable.")]
XidClass = Annotated[str | None, text("memory, bus, engine, application or any.")]
Window = Annotated[int | None, duration("Period in which events are counted, for example 1h.")]
RaiseAfter = Annotated[int | None, duration("How long the condition must hold, for example 5m.")]
ClearAfter = Annotated[int | None, duration("How long it must not hold before the alarm clears.")]
Site = Annotated[str | None, text('Site for which it holds; "" for the whole appliance.')]
Node = Annotated[str | None, text("Node for which it holds, with its GPUs.")]
Gpu = Annotated[str | None, text("GPU for which it holds, for example n1/0.")]
Pool = Annotated[str | None, text("Pool for whose GPUs or allocations it holds.")]
MailUsers = Annotated[
    list[str] | None,
    typer.Option("--mail-user", help='User who gets a mail. Can be repeated; "" for none.'),
]
WebhookUrl = Annotated[str | None, text('Address that gets a POST; "" for none.')]
WebhookSecret = Annotated[str | None, text("Key that signs these requests.")]
Script = Annotated[str | None, text('Script that root placed on the appliance; "" for none.')]
Maintenance = Annotated[
    bool | None,
    typer.Option(
        "--enter-maintenance/--no-maintenance", help="Whether to set the node into maintenance."
    ),
]
Enabled = Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it holds.")]
Notes = Annotated[str | None, text("Free text.")]


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by the names of the fields."""
    names = {
        "state": "states",
        "window": "window_seconds",
        "raise_after": "raise_after_seconds",
        "clear_after": "clear_after_seconds",
        "mail_user": "mail_users",
        "enter_maintenance": "enters_maintenance",
        "enable": "enabled",
    }
    fields = {
        names.get(name, name): [item for item in value if item]
        if isinstance(value, list)
        else value
        for name, value in values.items()
        if value is not None
    }
    return fields


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
def definition_create(
    name: str,
    severity: Severity = "warning",
    object_kind: ObjectKind = None,
    condition: Condition = None,
    state: States = None,
    metric: Metric = None,
    comparison: Comparison = None,
    threshold: Threshold = None,
    clear_threshold: ClearThreshold = None,
    event_kind: EventKind = None,
    xid_class: XidClass = None,
    window: Window = None,
    raise_after: RaiseAfter = None,
    clear_after: ClearAfter = None,
    site: Site = None,
    node: Node = None,
    gpu: Gpu = None,
    pool: Pool = None,
    mail_user: MailUsers = None,
    webhook_url: WebhookUrl = None,
    webhook_secret: WebhookSecret = None,
    script: Script = None,
    enter_maintenance: Maintenance = None,
    enable: Enabled = None,
    notes: Notes = None,
) -> None:
    """Create an alarm definition and print its id."""
    typer.echo(client().request("POST", PATH, given(locals()))["id"])


@alarm_definition_app.command("set")
def definition_set(
    name: Name,
    new_name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    severity: Severity = None,
    object_kind: ObjectKind = None,
    condition: Condition = None,
    state: States = None,
    metric: Metric = None,
    comparison: Comparison = None,
    threshold: Threshold = None,
    clear_threshold: ClearThreshold = None,
    event_kind: EventKind = None,
    xid_class: XidClass = None,
    window: Window = None,
    raise_after: RaiseAfter = None,
    clear_after: ClearAfter = None,
    site: Site = None,
    node: Node = None,
    gpu: Gpu = None,
    pool: Pool = None,
    mail_user: MailUsers = None,
    webhook_url: WebhookUrl = None,
    webhook_secret: WebhookSecret = None,
    script: Script = None,
    enter_maintenance: Maintenance = None,
    enable: Enabled = None,
    notes: Notes = None,
    output: Output = "table",
) -> None:
    """Change an alarm definition. Options that are not given keep their values."""
    changes = given(
        {k: v for k, v in locals().items() if k not in ("name", "new_name", "output")}
        | {"name": new_name}
    )
    api = client()
    row = api.find_by_name(PATH, name)
    show_one(api.request("PATCH", f"{PATH}/{row['id']}", changes), [*COLUMNS, *MORE], output)


@alarm_definition_app.command("delete")
def definition_delete(name: Name, yes: Yes = False) -> None:
    """Delete an alarm definition and clear its alarms. Those of the product can be disabled."""
    api = client()
    path = f"{PATH}/{api.find_by_name(PATH, name)['id']}"
    confirm_deletion(f"alarm definition {name}", "its rules; its alarms are cleared", yes)
    api.request("DELETE", path)
