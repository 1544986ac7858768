"""The commands `show` of users, groups, roles, role bindings, projects, departments and tokens."""

from __future__ import annotations

from remoting.cli import api as rest
from remoting.cli.allocation_sizes import with_size
from remoting.cli.api_fields import fields_of
from remoting.cli.object_ids import id_of
from remoting.cli.output import Output, client
from remoting.cli.people_commands import GROUPS, ROLES, USERS, binding_app, with_place
from remoting.cli.project_commands import DEPARTMENTS, PROJECTS
from remoting.cli.sheet import Related, Row, page, print_sheet
from remoting.cli.token_commands import FIELDS as TOKEN_FIELDS
from remoting.cli.token_commands import TokenName, token_app

BINDINGS = ("role", "user", "group", "place", "id")
ALLOCATIONS = ("name", "owner", "state", "pool", "gpu_count", "percent", "id")


def bindings(api: rest.Api, heading: str, **filters: str) -> Related:
    return Related(
        heading,
        BINDINGS,
        lambda: [with_place(b) for b in page(api, "role-bindings", **filters)],
    )


def quota(api: rest.Api, kind: str, name: str) -> Related:
    return Related(
        "Quota",
        [*fields_of("quotas", "subject_kind", "subject")],
        lambda: [q for q in api.items("quotas", subject_kind=kind) if q["subject"] == name],
    )


def open_allocations(api: rest.Api, **filters: str) -> Related:
    """Return those that wait, run or end, newest first."""
    ended = ("released", "failed")
    return Related(
        "Allocations",
        ALLOCATIONS,
        lambda: [
            with_size(a) for a in page(api, "allocations", **filters) if a["state"] not in ended
        ],
    )


@USERS.app.command("show")
@USERS.named
def user_show(name: str, output: Output = "table") -> None:
    """Show a user with roles, tokens, quota and allocations."""
    api = client()
    user = api.find_by_name("users", name)
    if output in ("json", "yaml"):
        user |= {"role_bindings": api.items("role-bindings", user=name)}
    related = [
        bindings(api, "Roles of the user", user=name),
        Related(
            "Tokens",
            ("name", "scopes", "expires_at", "last_used_at", "id"),
            lambda: page(api, "tokens", user=name),
        ),
        quota(api, "user", name),
        open_allocations(api, owner=name),
    ]
    print_sheet(f"User {name}", user, USERS.fields, related, output)


@GROUPS.shows
def group_show(api: rest.Api, group: Row) -> list[Related]:
    """Show a group with its members and roles."""
    members = Related(
        "Members", ("user", "group", "id"), lambda: page(api, f"groups/{group['id']}/members")
    )
    return [members, bindings(api, "Roles of the group", group=group["name"])]


@ROLES.shows
def role_show(api: rest.Api, role: Row) -> list[Related]:
    """Show a role with its privileges and the users and groups that have it."""
    return [bindings(api, "Bindings", role=role["name"])]


@binding_app.command("show")
def binding_show(binding_id: str, output: Output = "table") -> None:
    """Show a role binding with the privileges of its role."""
    api = client()
    binding = api.request("GET", f"role-bindings/{id_of(api, 'role-bindings', binding_id)}")
    privileges = Related(
        "Privileges of the role",
        ("privileges",),
        lambda: [api.find_by_name("roles", binding["role"])],
    )
    shown = binding if output in ("json", "yaml") else with_place(binding)
    fields = ("role", "user", "group", "place", "created_at", "id")
    print_sheet("Role binding", shown, fields, [privileges], output)


@PROJECTS.shows
def project_show(api: rest.Api, project: Row) -> list[Related]:
    """Show a project with its quota, members, allocations and reservations."""
    name = project["name"]
    return [
        quota(api, "project", name),
        bindings(api, "Roles in the project", project=name),
        open_allocations(api, project=name),
        Related(
            "Reservations",
            ("name", "pool", "gpu_count", "percent", "starts_at", "ends_at"),
            lambda: page(api, "reservations", project=name),
        ),
    ]


@DEPARTMENTS.shows
def department_show(api: rest.Api, department: Row) -> list[Related]:
    """Show a department with its projects, quota and roles."""
    name = department["name"]
    return [
        Related("Projects", ("name", "id"), lambda: page(api, "projects", department=name)),
        quota(api, "department", name),
        bindings(api, "Roles in the department", department=name),
    ]


@token_app.command("show")
def token_show(token: TokenName, output: Output = "table") -> None:
    """Show a token without its secret: scopes, networks, end and last use, and its uses."""
    api = client()
    token_id = id_of(api, "tokens", token)
    found = api.request("GET", f"tokens/{token_id}")
    made = Related(
        "Tokens that it has made",
        ("name", "scopes", "expires_at", "id"),
        lambda: page(api, "tokens", made_with_id=token_id),
    )
    print_sheet(f"Token {found['name']}", found, TOKEN_FIELDS[1:], [made], output)
