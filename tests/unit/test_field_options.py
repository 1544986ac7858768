"""Options of commands that the fields of the REST API give."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from remoting.cli.main import app

POOL = "policy fallback max-lifetime max-idle max-late network required-isolation project"
ALARM = (
    "severity object-kind condition state metric comparison threshold clear-threshold event-kind"
    " xid-class window raise-after clear-after site node gpu pool mail-user webhook-url"
    " webhook-secret script notes enable disable enter-maintenance no-maintenance"
)
OPTIONS = {
    "pool create": f"{POOL} admit-new-gpus hold-new-gpus",
    "pool set": f"{POOL} admit-new-gpus hold-new-gpus output",
    "quota set": "quota limit borrows no-borrows weight",
    "alarm-definition create": ALARM,
    "alarm-definition set": f"{ALARM} name output",
}


def options_of(command: str) -> list[Any]:
    group, name = command.split()
    program: Any = typer.main.get_command(app)
    return [p for p in program.commands[group].commands[name].params if p.opts[0].startswith("-")]


@pytest.mark.parametrize("command", OPTIONS)
def test_command_has_an_option_for_each_field(command: str) -> None:
    names = {n for option in options_of(command) for n in (*option.opts, *option.secondary_opts)}
    found = {name.removeprefix("--") for name in names if name.startswith("--")}
    assert found == set(OPTIONS[command].split())


def test_help_tells_what_a_field_means_and_takes() -> None:
    texts = {option.opts[0]: option.help for option in options_of("pool set")}
    assert texts["--policy"].endswith(" Can be repeated.")
    assert "One of pack, spread, model_affinity, exclusive." in texts["--policy"]
    assert texts["--fallback"].endswith(' in order. Can be repeated; "" clears the list.')
    assert texts["--max-idle"].startswith("Time without a launch or copy until eviction")
    assert all(texts.values())
