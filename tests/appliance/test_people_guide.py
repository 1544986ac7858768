"""The commands of docs/guides/people.md work as printed, in their order."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.inventory.models import Node, Site
from appliance.pools.models import Pool
from deploy.supervisor import ROOT
from tests.appliance.commands_in_process import Busbar

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
GUIDE = ROOT / "docs" / "guides" / "people.md"
OF_A_CONNECTION = ("run", "install-line", "login")
NAMES_OF_THE_CAST = ("ada", "bob", "vera")
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


def lines() -> list[list[str]]:
    """Return the command lines of the guide, without those that need an id or a connection."""
    blocks = "".join(GUIDE.read_text().split("```\n")[1::2])
    found = [shlex.split(line, comments=True) for line in blocks.splitlines()]
    commands = [line[1:] for line in found if line[:1] == ["busbar"]]
    return [c for c in commands if c[0] not in OF_A_CONNECTION and "projects/ID" not in c]


def test_commands_of_the_guide_work_in_their_order(add_node: AddNode, busbar: Busbar) -> None:
    for name in NAMES_OF_THE_CAST:
        User.objects.filter(username=name).update(username=f"other-{name}", name_key=name + "-")
    add_node(name="rack3-n7")
    Site.objects.create(name="north")
    Pool.objects.create(name="a100")
    assert len(lines()) > 20
    for line in lines():
        done = busbar(*line, *(["--yes"] if "revoke" in line else []))
        assert done.status == 0, (line, done.err)
