"""Options of commands that the fields of the REST API give."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from remoting.cli.api_fields import fields_of
from remoting.cli.main import app

OTHER_NAMES = {
    "admit_new_gpus": ["admit-new-gpus", "hold-new-gpus"],
    "borrows": ["borrows", "no-borrows"],
    "enabled": ["enable", "disable"],
    "enters_maintenance": ["enter-maintenance", "no-maintenance"],
    "fallbacks": ["fallback"],
    "labels": [],
    "limit_gpus": ["limit"],
    "mail_users": ["mail-user"],
    "name": [],
    "policies": ["policy"],
    "projects": ["project"],
    "quota_gpus": ["quota"],
    "states": ["state"],
    "subject": [],
    "subject_kind": [],
}
"""Options of the fields whose option has another name than the field without its unit."""
COMMANDS: dict[str, tuple[str, set[str]]] = {
    "pool create": ("pools", set()),
    "pool set": ("pools", {"output"}),
    "quota set": ("quotas", set()),
    "alarm-definition create": ("alarm-definitions", set()),
    "alarm-definition set": ("alarm-definitions", {"name", "output"}),
}
"""Collection of the fields, and the other options."""


def options_of(command: str) -> list[Any]:
    group, name = command.split()
    program: Any = typer.main.get_command(app)
    return [p for p in program.commands[group].commands[name].params if p.opts[0].startswith("-")]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_has_an_option_for_each_field(command: str) -> None:
    collection, others = COMMANDS[command]
    names = {n for option in options_of(command) for n in (*option.opts, *option.secondary_opts)}
    found = {name.removeprefix("--") for name in names if name.startswith("--")}
    expected = {
        name
        for field in fields_of(collection)
        for name in OTHER_NAMES.get(field, [field.removesuffix("_seconds").replace("_", "-")])
    }
    assert found == expected | others


def test_help_tells_what_a_field_means_and_takes() -> None:
    texts = {option.opts[0]: option.help for option in options_of("pool set")}
    assert texts["--policy"].endswith(" Can be repeated.")
    assert "One of pack, spread, model_affinity, exclusive." in texts["--policy"]
    assert texts["--fallback"].endswith(' in order. Can be repeated; "" clears the list.')
    assert texts["--max-idle"].startswith("Time without a launch or copy until eviction")
    assert all(texts.values())


@pytest.mark.parametrize("command", ["quota set --limit", "alarm-definition set --clear-threshold"])
def test_help_tells_how_to_clear_a_number(command: str) -> None:
    name, _, option = command.rpartition(" ")
    texts = {found.opts[0]: found.help for found in options_of(name)}
    assert texts[option].endswith(" `none` clears it.")
