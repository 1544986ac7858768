"""Prepares the database of an appliance for a demo fleet, before it starts.

Usage: python -m deploy.demo_fleet.prepare FILE

Migrates, creates pool, projects, sites and users, and writes tokens to FILE (JSON, mode 0600). Ends
with a sentence if the appliance has nodes that are not simulated ones of an earlier start.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

from deploy.demo_fleet.people import POOL

DEPARTMENTS = {
    "demo-research": ("demo-vision", "demo-speech"),
    "demo-products": ("demo-search", "demo-chemistry"),
}
USERS = {
    "demo-amara": "demo-vision", "demo-jonas": "demo-vision", "demo-mei": "demo-speech",
    "demo-luis": "demo-speech", "demo-priya": "demo-search", "demo-tom": "demo-search",
    "demo-aiko": "demo-chemistry", "demo-nora": "demo-chemistry",
}  # fmt: skip
"""Project of each user."""
SITES = ("demo-north", "demo-south")
OPERATOR = "demo-operator"
TOKEN = "demo fleet"
OPERATOR_LIFETIME = timedelta(hours=1)
NOTES = "Simulated for demonstration."


def prepare() -> dict[str, Any]:
    """Create what is missing. Return the tokens of the users and of the operator."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import transaction

    for database in settings.DATABASES:
        call_command("migrate", database=database, interactive=False, verbosity=0)
    from appliance.accounts.services import ensure_defaults
    from appliance.pools.services import ensure_default_pool

    refuse_appliance_in_use()
    ensure_default_pool()
    ensure_defaults()
    with transaction.atomic():
        create_places()
        return create_tokens()


def refuse_appliance_in_use() -> None:
    """Raise SystemExit if there are nodes, and none of them is simulated."""
    from appliance.inventory.models import Node
    from appliance.pools.models import Pool

    if Node.objects.exists() and not Pool.objects.filter(simulated=True).exists():
        raise SystemExit(
            "This appliance has nodes of its own. A demo fleet needs a data folder of its own:"
            " choose another one with --data, or omit --data."
        )


def create_places() -> None:
    """Create departments, projects, sites and the pool, unless they exist."""
    from appliance.accounts.models import Department, Project
    from appliance.inventory.models import Site
    from appliance.pools.models import Pool
    from appliance.pools.services import create_pool

    for name, projects in DEPARTMENTS.items():
        department, _ = Department.objects.get_or_create(name=name)
        for project in projects:
            Project.objects.get_or_create(name=project, defaults={"department": department})
    for name in SITES:
        Site.objects.get_or_create(name=name, defaults={"notes": NOTES})
    if not Pool.objects.filter(name=POOL).exists():
        values = {"name": POOL, "projects": sorted(set(USERS.values()))}
        create_pool(values=values, actor="system", simulated=True)


def create_tokens() -> dict[str, Any]:
    """Create the users that are missing, and replace the tokens of an earlier start."""
    from appliance.accounts.models import ApiToken, Project, Role, RoleBinding, User
    from appliance.accounts.services import token_create

    ApiToken.objects.filter(name=TOKEN).delete()
    people = []
    for name, project_name in USERS.items():
        user, _ = User.objects.get_or_create(username=name)
        project = Project.objects.get(name=project_name)
        RoleBinding.objects.get_or_create(user=user, project=project, role=Role.USER)
        token = token_create(user=user, name=TOKEN)[1]
        people.append({"name": name, "project": project_name, "token": token})
    operator, _ = User.objects.get_or_create(username=OPERATOR)
    RoleBinding.objects.get_or_create(user=operator, project=None, role=Role.OPERATOR)
    token = token_create(user=operator, name=TOKEN, lifetime=OPERATOR_LIFETIME)[1]
    return {"people": people, "operator": token, "sites": SITES, "notes": NOTES}


def write_privately(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    django.setup()
    write_privately(Path(sys.argv[1]), json.dumps(prepare()))
