"""Objects with names are created, shown, changed and deleted by the commands of their kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings

from remoting.cli.command_table import TABLE
from tests.appliance.commands_in_process import COMMAND, Busbar

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))

KINDS = [name for name, place in TABLE.items() if place.attribute.endswith(".app")]
"""Groups whose commands a `Collection` makes."""
NEEDED = {
    "alarm-definition": ["--object-kind", "node", "--condition", "state", "--state", "unreachable"],
    "role": ["--privilege", "audit.read"],
    "user": ["-o", "json"],
}
"""Options that a new object needs."""


def shown(busbar: Busbar, kind: str, name: str) -> Any:
    done = busbar(kind, "show", name, "-o", "json")
    assert (done.status, done.err) == (0, ""), done
    return json.loads(done.out)


def create(busbar: Busbar, kind: str) -> str:
    done = busbar(kind, "create", "seven", *NEEDED.get(kind, []))
    assert (done.status, done.err) == (0, ""), done
    return str(json.loads(done.out)["id"]) if kind == "user" else done.out.strip()


def test_kinds_are_found() -> None:
    assert {"alarm-definition", "pool", "project", "user"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_object_is_created_listed_shown_and_deleted(busbar: Busbar, kind: str) -> None:
    made = create(busbar, kind)
    assert shown(busbar, kind, "seven")["id"] == made
    assert "seven" in busbar(kind, "list").out and made in busbar(kind, "list", "-o", "wide").out
    refused = busbar(kind, "delete", "seven")
    assert refused.status == 2 and "repeat with --yes" in refused.err, refused
    assert f"Delete {kind.replace('-', ' ')} seven, with " in refused.err, refused
    deleted = busbar(kind, "delete", "seven", "--yes")
    assert (deleted.status, deleted.out, deleted.err) == (0, "", ""), deleted
    for verb in (["show", "seven"], ["delete", "seven", "--yes"]):
        absent = busbar(kind, *verb)
        assert absent.status == 3 and f'"seven" not found in {kind}s' in absent.err, absent


@pytest.mark.parametrize("kind", [k for k in KINDS if "rename" in COMMAND.commands[k].commands])
def test_object_is_renamed(busbar: Busbar, kind: str) -> None:
    made = create(busbar, kind)
    done = busbar(kind, "rename", "seven", "eight")
    assert (done.status, done.out, done.err) == (0, "", ""), done
    assert shown(busbar, kind, "eight")["id"] == made


@pytest.mark.parametrize("kind", ["alarm-definition", "site"])
def test_option_name_renames_and_others_keep_their_values(busbar: Busbar, kind: str) -> None:
    create(busbar, kind)
    assert busbar(kind, "set", "seven", "--notes", "by the river").status == 0
    done = busbar(kind, "set", "seven", "--name", "eight", "-o", "json")
    assert (done.status, done.err) == (0, ""), done
    row = json.loads(done.out)
    assert (row["name"], row["notes"]) == ("eight", "by the river")
    assert busbar(kind, "set", "eight", "--notes", "").status == 0
    assert shown(busbar, kind, "eight")["notes"] == ""


def test_refused_new_name_is_told_by_its_option(busbar: Busbar) -> None:
    create(busbar, "site")
    refused = busbar("site", "set", "seven", "--name", "x" * 5000)
    assert refused.status and "--name: " in refused.err, refused
    refused = busbar("site", "create", "x" * 5000)
    assert refused.status and "NAME: " in refused.err, refused


def test_new_alarm_definition_is_a_warning_unless_it_is_told(busbar: Busbar) -> None:
    create(busbar, "alarm-definition")
    assert shown(busbar, "alarm-definition", "seven")["severity"] == "warning"
    done = busbar("alarm-definition", "set", "seven", "--severity", "critical", "-o", "json")
    assert json.loads(done.out)["severity"] == "critical"


def test_project_is_moved_and_role_replaced(busbar: Busbar) -> None:
    for kind in ("department", "project", "role"):
        create(busbar, kind)
    moved = busbar("project", "set", "seven", "seven", "-o", "json")
    assert json.loads(moved.out)["department"] == "seven"
    done = busbar("role", "set", "seven", "--privilege", "activity.view")
    assert (done.status, done.out, done.err) == (0, "", ""), done
    assert shown(busbar, "role", "seven")["privileges"] == ["activity.view"]
