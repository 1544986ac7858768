"""The commands `busbar settings` and `busbar notifications`."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.output import Output, client, print_structured, show, show_one
from remoting.cli.prompts import has_terminal

settings_app = typer.Typer(
    no_args_is_help=True, help="Show and change the settings of the appliance."
)
SettingName = Annotated[
    str, typer.Argument(metavar="SECTION.NAME", help="For example retention.events_days.")
]


@settings_app.command("list")
def settings_list(
    section: Annotated[str, typer.Argument(help="Name of a section; else all.")] = "",
    output: Output = "table",
) -> None:
    """List the settings, and whether they differ from their defaults."""
    found = client().request("GET", "settings")
    if print_structured(found, output):
        return
    sections = {name: values for name, values in found.items() if isinstance(values, dict)}
    if section and section not in sections:
        raise rest.ApiError(
            f"{section} is no section; expected {', '.join(sections)}.", rest.EXIT_NOT_FOUND
        )
    rows = [
        {
            "name": f"{name}.{key}",
            "value": shown(value),
            "changed": f"{name}.{key.removesuffix('_is_set')}" in found["changed"],
        }
        for name, values in sections.items()
        if section in ("", name)
        for key, value in values.items()
    ]
    show(rows, ["name", "value", "changed"], output)


def shown(value: Any) -> str:
    """Return a value on one line: a text with several lines ends after the first."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    lines = str(value).splitlines()
    return f"{lines[0]} ..." if len(lines) > 1 else str(value)


@settings_app.command("set")
def settings_set(
    name: SettingName,
    value: Annotated[
        str | None,
        typer.Argument(help="New value; - reads it from standard input. A password is prompted."),
    ] = None,
) -> None:
    """Change a setting. It is in force at once, except those of the section `connections`."""
    change(name, value_of(name, value))


@settings_app.command("reset")
def settings_reset(name: SettingName) -> None:
    """Give a setting its default."""
    change(name, None)


def value_of(name: str, text: str | None) -> Any:
    """Return the value in the type of the setting: JSON if it is, else a text.

    A value that is not given is prompted without echo. Raises ApiError without a terminal.
    """
    if text is None:
        if not has_terminal():
            raise rest.ApiError(f"Give the value of {name}, or - to read it.", rest.EXIT_USAGE)
        return getpass.getpass(f"{name}: ")
    if text == "-":
        return sys.stdin.read().rstrip("\n")
    try:
        return json.loads(text)
    except ValueError:
        return text


def change(name: str, value: Any) -> None:
    section, dot, key = name.partition(".")
    if not dot or not key:
        raise rest.ApiError(f"{name} is no setting; expected SECTION.NAME.", rest.EXIT_USAGE)
    client().request("PATCH", "settings", {section: {key: value}})


@settings_app.command("test-mail")
def settings_test_mail(
    to: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address of the recipient.")],
) -> None:
    """Send a test message through the mail server of the settings."""
    client().request("POST", "settings/test-mail", {"to": to})
    typer.echo(f"The mail server accepted a message to {to}.")


def notifications(
    start: Annotated[
        bool | None, typer.Option("--start/--no-start", help="A waiting request got its GPUs.")
    ] = None,
    lifetime: Annotated[
        bool | None, typer.Option("--lifetime/--no-lifetime", help="A lifetime ends soon.")
    ] = None,
    reclaim: Annotated[
        bool | None, typer.Option("--reclaim/--no-reclaim", help="GPUs are taken back.")
    ] = None,
    alarm: Annotated[
        bool | None, typer.Option("--alarm/--no-alarm", help="An alarm names you.")
    ] = None,
    output: Output = "table",
) -> None:
    """Show or choose which mails about allocations and alarms you get."""
    given = {"start": start, "lifetime": lifetime, "reclaim": reclaim, "alarm": alarm}
    choices = {key: value for key, value in given.items() if value is not None}
    api = client()
    found = (
        api.request("PATCH", "me/notifications", choices)
        if choices
        else api.request("GET", "me/notifications")
    )
    show_one(found, ["email", "is_mail_set_up", *given], output)
