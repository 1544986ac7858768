"""The commands of `busbar`, and the modules that have them.

A module is imported when its command is used, or when the help of `busbar` lists them all.
Importing all modules and reading the signatures of all commands takes most of the time of a command
that only prints something.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

import typer
from typer.core import TyperGroup

from remoting.cli.empty_values import refusing_empty_values
from remoting.cli.option_words import speaking_options
from remoting.cli.printable import printable

ACTIVITY, INVENTORY, PEOPLE = "activity_sheets", "inventory_sheets", "people_sheets"


@dataclass(frozen=True)
class Place:
    """Location of a command or of a group of commands."""

    module: str
    """Name of a module of `remoting.cli`."""
    attribute: str
    """A function, or the `Typer` of a group: `app` of a collection."""
    sheets: str = ""
    """A module that adds the command `show` to the group."""
    passes_options: bool = False
    """Options that the command does not have are arguments."""


TABLE = {
    "events": Place("activity_commands", "events"),
    "metrics": Place("activity_commands", "metrics"),
    "top": Place("activity_commands", "top"),
    "time-to-gpu": Place("activity_commands", "time_to_gpu"),
    "apply": Place("apply_command", "apply"),
    "capacity": Place("gpu_commands", "capacity"),
    "notifications": Place("settings_commands", "notifications"),
    "install-line": Place("install_line_command", "install_line"),
    "doctor": Place("doctor_command", "doctor"),
    "login": Place("login_command", "login"),
    "resize": Place("resize_command", "resize"),
    "smi": Place("smi_command", "smi"),
    "logout": Place("token_commands", "logout"),
    "runs": Place("runs_commands", "runs"),
    "logs": Place("runs_commands", "logs"),
    "stop": Place("runs_commands", "stop"),
    "run": Place("program_command", "run", passes_options=True),
    "ps": Place("appliance_commands", "ps"),
    "explain": Place("appliance_commands", "explain"),
    "completion": Place("completion_command", "completion"),
    "api": Place("appliance_commands", "any_operation"),
    "whoami": Place("appliance_commands", "whoami"),
    "access": Place("appliance_commands", "access"),
    "status": Place("appliance_commands", "status"),
    "node": Place("node_commands", "node_app", INVENTORY),
    "gpu": Place("gpu_commands", "gpu_app", INVENTORY),
    "site": Place("site_commands", "SITES.app", INVENTORY),
    "allocation": Place("allocation_commands", "allocation_app", ACTIVITY),
    "alarm": Place("alarm_commands", "alarm_app"),
    "alarm-definition": Place("alarm_definition_commands", "DEFINITIONS.app"),
    "task": Place("activity_commands", "task_app", ACTIVITY),
    "jupyter": Place("jupyter_commands", "jupyter_app"),
    "session": Place("activity_sheets", "session_app"),
    "audit": Place("audit_commands", "audit_app"),
    "settings": Place("settings_commands", "settings_app"),
    "token": Place("token_commands", "token_app", PEOPLE),
    "second-factor": Place("second_factor_commands", "second_factor_app"),
    "passkey": Place("passkey_commands", "passkey_app"),
    "ca": Place("rotation_commands", "ca_app"),
    "ticket-key": Place("rotation_commands", "ticket_key_app"),
    "pool": Place("pool_commands", "POOLS.app", INVENTORY),
    "quota": Place("pool_commands", "quota_app", INVENTORY),
    "reservation": Place("pool_commands", "reservation_app", INVENTORY),
    "project": Place("project_commands", "PROJECTS.app", PEOPLE),
    "department": Place("project_commands", "DEPARTMENTS.app", PEOPLE),
    "user": Place("people_commands", "USERS.app", PEOPLE),
    "group": Place("people_commands", "GROUPS.app", PEOPLE),
    "role": Place("people_commands", "ROLES.app", PEOPLE),
    "role-binding": Place("people_commands", "binding_app", PEOPLE),
}


class LoadedOnUse(UserDict[str, Any]):
    """Commands by name. Values are places until they are read for the first time."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, Place):
            found = self.data[name] = load(name, found)
        return found


class CommandTable(TyperGroup):
    """The group `busbar`, with the commands of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LoadedOnUse(TABLE)

    def make_context(self, *given: Any, **settings: Any) -> Any:
        with printable_usage_errors():
            return super().make_context(*given, **settings)

    def invoke(self, ctx: Any) -> Any:
        with printable_usage_errors():
            return super().invoke(ctx)


@contextmanager
def printable_usage_errors() -> Iterator[None]:
    """Escape what controls a terminal in the messages of typer, which quote what was given."""
    try:
        yield
    except Exception as error:
        if isinstance(text := getattr(error, "message", None), str):
            error.message = printable(text)  # type: ignore[attr-defined]
        raise


def load(name: str, place: Place) -> Any:
    """Import what a command needs and return the command."""
    found = attrgetter(place.attribute)(import_module(f"remoting.cli.{place.module}"))
    if place.sheets:
        import_module(f"remoting.cli.{place.sheets}")
    owner = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        owner.add_typer(found, name=name)
    else:
        owner.command(name, context_settings=context_settings(place))(found)
    command = typer.main.get_group(owner).commands[name]
    return speaking_options(refusing_empty_values(command))


def context_settings(place: Place) -> dict[str, bool]:
    names = ("allow_extra_args", "ignore_unknown_options") if place.passes_options else ()
    return dict.fromkeys(names, True)
