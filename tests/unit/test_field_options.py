"""Options of commands that the fields of the REST API give."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from remoting.cli import api_fields
from remoting.cli.api_fields import fields_of
from remoting.cli.collection_commands import Collection
from remoting.cli.main import app

OTHER_NAMES = {
    "admit_new_gpus": ["admit-new-gpus", "hold-new-gpus"],
    "borrows": ["borrows", "no-borrows"],
    "enabled": ["enable", "disable"],
    "ends_at": ["to"],
    "enters_maintenance": ["enter-maintenance", "no-maintenance"],
    "fallbacks": ["fallback"],
    "gpu_count": ["gpus"],
    "is_active": ["active", "inactive"],
    "is_service": ["service"],
    "labels": [],
    "limit_gpus": ["limit"],
    "mail_users": ["mail-user"],
    "networks": ["network"],
    "policies": ["policy"],
    "privileges": ["privilege"],
    "projects": ["project"],
    "quota_gpus": ["quota"],
    "role": [],
    "scopes": ["scope"],
    "starts_at": ["from"],
    "states": ["state"],
    "subject": [],
    "subject_kind": [],
    "username": [],
}
"""Options of the fields whose option has another name than the field without its unit."""
NO_FIELDS = {"output", "yes"}
"""Options that commands may have besides."""
WITHOUT_OPTION = {
    "pool set": ["name"],
    "project set": ["department"],
    "role set": ["name"],
    "user create": ["is_active"],
    "user set": ["is_service"],
}
"""Fields that a command cannot set, or that are its arguments."""
BY_HAND = {"allocation create"}
"""Commands whose options are those of `busbar run`."""
PROGRAM: Any = typer.main.get_command(app)
COMMANDS = [
    f"{group} {name}"
    for group in PROGRAM.commands
    if f"{group}s" in api_fields.forms()
    for name in ("create", "set")
    if name in PROGRAM.commands[group].commands and f"{group} {name}" not in BY_HAND
]

RACKS = {
    "name": {"type": "string", "description": "Name."},
    "height": {"type": ["integer", "null"], "minimum": 1, "description": "Height in units."},
    "labels": {"type": "object", "description": "Labels by key."},
    "secret": {"type": "string", "description": "Key of its lock.", "writeOnly": True},
}


def options_of(command: str) -> list[Any]:
    group, name = command.split()
    return options_in(PROGRAM.commands[group], name)


def options_in(group: Any, name: str) -> list[Any]:
    return [p for p in group.commands[name].params if p.opts[0].startswith("-")]


def test_each_kind_has_a_group_of_commands_that_is_found_by_its_name() -> None:
    assert set(api_fields.forms()) <= {f"{group}s" for group in PROGRAM.commands}
    assert {"pool create", "pool set", "role-binding create"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_an_option_for_each_field(command: str) -> None:
    names = {n for option in options_of(command) for n in (*option.opts, *option.secondary_opts)}
    found = {name.removeprefix("--") for name in names if name.startswith("--")}
    group, verb = command.split()
    without = WITHOUT_OPTION.get(command, [])
    if verb == "create" or "rename" in PROGRAM.commands[group].commands:
        without = ["name", *without]  # the name of the object is an argument
    expected = {
        name
        for field in fields_of(f"{group}s", *without)
        for name in OTHER_NAMES.get(field, [field.removesuffix("_seconds").replace("_", "-")])
    }
    assert found - NO_FIELDS == expected


def test_help_tells_what_a_field_means_and_takes() -> None:
    texts = {option.opts[0]: option.help for option in options_of("pool set")}
    assert texts["--policy"].endswith(" Can be repeated.")
    assert "One of pack, spread, model_affinity, exclusive." in texts["--policy"]
    assert texts["--fallback"].endswith(' in order. Can be repeated; "" for an empty list.')
    assert texts["--max-idle"].startswith("Time without a launch or copy until eviction")
    assert all(texts.values())


def test_filters_of_role_bindings_do_not_tell_what_a_new_one_does() -> None:
    texts = {option.opts[0]: option.help for option in options_of("role-binding list")}
    assert texts["--project"] == "Name of a project."
    assert set(texts) == {*(option.opts[0] for option in options_of("role-binding create")), "-o"}


@pytest.mark.parametrize("command", ["quota set --limit", "alarm-definition create --threshold"])
def test_help_tells_how_a_number_has_no_value(command: str) -> None:
    name, _, option = command.rpartition(" ")
    texts = {found.opts[0]: found.help for found in options_of(name)}
    assert texts[option].endswith(" `none` for no value.")


def test_new_kind_has_its_fields_as_options_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    known = api_fields.forms() | {"racks": {"required": ["name"], "properties": RACKS}}
    monkeypatch.setattr(api_fields, "forms", lambda: known)
    racks = Collection("racks", "Manage racks.")
    racks.creates(without=["secret"])
    racks.changes()
    racks.shows()
    group: Any = typer.main.get_command(racks.app)
    texts = [group.help, *(command.help for command in group.commands.values())]
    assert texts == [
        "Manage racks.",
        "Create a rack and print its id.",
        "Change a rack. Options that are not given keep their values.",
        "Show a rack.",
    ]
    helps = {option.opts[0]: option.help for option in options_in(group, "set")}
    assert helps["--height"] == "Height in units. `none` for no value."
    assert set(helps) == {"--name", "--height", "--secret", "-o"}
    assert [option.opts for option in options_in(group, "create")] == [["--height"]]
    assert (racks.columns, racks.wide) == (["name", "height", "id"], ["labels", "created_at"])
    assert racks.fields == ["height", "labels", "created_at", "id"]
