"""Check of `busbar doctor` in which projects the user may request GPUs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from remoting.cli.api import Api, ApiError
from remoting.cli.doctor_finding import FAILED, OK, Finding, failed

NAME = "projects"
PRIVILEGE = "allocations.create"
LIMITS = ("project", "department", "site", "pool", "node", "gpu")
"""Fields of a role binding that limit it to a part of the appliance."""
ASK = "Ask an administrator of a project for the role user in it."
OTHER_TOKEN = f"Sign in with a token that has the scope {PRIVILEGE}."


def projects_finding(api: Api) -> Finding:
    """Return where the user may request GPUs. A token without the scope may request none."""
    try:
        me = api.request("GET", "me")
        roles = [role["name"] for role in api.items("roles") if PRIVILEGE in role["privileges"]]
    except ApiError as error:
        return failed(NAME, error)
    places = places_of(me["roles"], roles)
    if places and PRIVILEGE not in me["privileges"]:
        text = f"The token of {me['username']} may request no GPUs."
        return Finding(NAME, FAILED, text, OTHER_TOKEN)
    if not places:
        return Finding(NAME, FAILED, f"{me['username']} may request GPUs in no project.", ASK)
    text = f"{me['username']} may request GPUs in {', '.join(places)}."
    return Finding(NAME, OK, text)


def places_of(bindings: Collection[Mapping[str, Any]], roles: Collection[str]) -> list[str]:
    """Return the projects in which bindings of one of the roles apply, in words."""
    granting = [b for b in bindings if b["role"] in roles]
    if any(not any(b[limit] for limit in LIMITS) for b in granting):
        return ["all projects"]
    projects = {f"project {b['project']}" for b in granting if b["project"]}
    departments = {f"projects of department {b['department']}" for b in granting if b["department"]}
    return sorted(projects) + sorted(departments)
