"""The commands `busbar user`, `group`, `role` and `role-binding`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm, confirm_deletion
from remoting.cli.object_ids import described, path_of, row_of
from remoting.cli.output import Output, client, print_structured, show, show_one

user_app = typer.Typer(no_args_is_help=True, help="Manage users.")
group_app = typer.Typer(no_args_is_help=True, help="Manage groups of users.")
role_app = typer.Typer(no_args_is_help=True, help="Manage roles, which are sets of privileges.")
binding_app = typer.Typer(
    no_args_is_help=True,
    help="Manage role bindings: a role of a user or group in a project, in all projects of a "
    "department, at a site, node, GPU or pool, or on the whole appliance.",
)
UserName = Annotated[str, typer.Argument(autocompletion=complete_names("users"))]
GroupName = Annotated[str, typer.Argument(autocompletion=complete_names("groups"))]
RoleName = Annotated[str, typer.Argument(autocompletion=complete_names("roles"))]
UserOption = Annotated[str, typer.Option(help="Name of a user.")]
GroupOption = Annotated[str, typer.Option(help="Name of a group.")]
ProjectOption = Annotated[str, typer.Option(help="Name of a project.")]
DepartmentOption = Annotated[str, typer.Option(help="Name of a department.")]
SiteOption = Annotated[str, typer.Option(help="Name of a site.")]
NodeOption = Annotated[str, typer.Option(help="Name of a node.")]
GpuOption = Annotated[str, typer.Option(help="NODE/INDEX of a GPU.")]
PoolOption = Annotated[str, typer.Option(help="Name of a pool.")]
PrivilegeOption = Annotated[
    list[str], typer.Option("--privilege", help="Name of a privilege. Can be repeated.")
]
USER_COLUMNS = [
    "username",
    "email",
    "is_active",
    "is_service",
    "source",
    "must_change_password",
    "second_factor_since",
    "id",
]
PLACES = ["project", "department", "site", "node", "gpu", "pool"]
LIVE_STATES = ("queued", "preparing", "active", "suspended")
BINDING_COLUMNS = ["role", "user", "group", "place", "id"]


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in ("", None)}


def with_place(binding: dict[str, Any]) -> dict[str, Any]:
    """Return the role binding with `place`, such as `project/vision`, for a table."""
    places = [f"{kind}/{binding[kind]}" for kind in PLACES if binding[kind]]
    return binding | {"place": "".join(places) or "appliance"}


def show_bindings(bindings: list[dict[str, Any]], output: str) -> None:
    if not print_structured(bindings, output):
        show([with_place(b) for b in bindings], BINDING_COLUMNS, output, ["created_at"])


@user_app.command("list")
def user_list(output: Output = "table") -> None:
    """List users."""
    show(client().items("users"), USER_COLUMNS, output, ["created_at"])


@user_app.command("create")
def user_create(
    name: str,
    email: Annotated[str, typer.Option(help="Address for mail.")] = "",
    service: Annotated[
        bool, typer.Option("--service", help="A service account: without a password.")
    ] = False,
    output: Output = "table",
) -> None:
    """Create a user without roles and print a one-time password."""
    body = {"username": name, "is_service": service} | given(email=email)
    user = client().request("POST", "users", body)
    show_one(user, ["username", "one_time_password", "id"], output)


@user_app.command("set")
def user_set(
    name: UserName,
    email: Annotated[str | None, typer.Option(help="Address for mail.")] = None,
    active: Annotated[
        bool | None,
        typer.Option(
            "--active/--inactive",
            help="An inactive user cannot sign in; tokens and allocations end.",
        ),
    ] = None,
    yes: Yes = False,
    output: Output = "table",
) -> None:
    """Change a user. Options that are not given keep their values."""
    api = client()
    path = path_of(api, "users", name)
    if active is False:
        count = sum(count_allocations(api, name, state=state) for state in LIVE_STATES)
        confirm(f"End the sign-ins, the tokens and {count} allocations of {name}?", yes)
    options = {"email": email, "is_active": active}
    changes = {key: value for key, value in options.items() if value is not None}
    show_one(api.request("PATCH", path, changes), USER_COLUMNS, output)


def count_allocations(api: rest.Api, owner: str, state: str | None = None) -> int:
    query = {"owner": owner, "limit": "1", "count": "true"} | given(state=state)
    page = api.send("GET", "allocations", query=query)
    return int(page["count"])


@user_app.command("reset-password")
def user_reset_password(name: UserName, yes: Yes = False) -> None:
    """Print a new one-time password. All tokens of the user end."""
    api = client()
    path = path_of(api, "users", name)
    confirm(f"End the password, the sign-ins and all tokens of {name}?", yes)
    response = api.request("POST", f"{path}/reset-password")
    typer.echo(response["one_time_password"])


@user_app.command("reset-second-factor")
def user_reset_second_factor(name: UserName, yes: Yes = False) -> None:
    """Remove the second factor of a user who has lost it. Their sign-ins end."""
    api = client()
    path = path_of(api, "users", name)
    confirm(f"Remove the second factor, passkeys and recovery codes of {name}?", yes)
    api.request("DELETE", f"{path}/second-factor")


@user_app.command("delete")
def user_delete(name: UserName, yes: Yes = False) -> None:
    """Delete a user. Prefer `busbar user set NAME --inactive`, which keeps the history."""
    api = client()
    path = path_of(api, "users", name)
    lost = f"tokens, roles and the history of {count_allocations(api, name)} allocations"
    confirm_deletion(f"user {name}", lost, yes)
    api.request("DELETE", path)


@group_app.command("list")
def group_list(output: Output = "table") -> None:
    """List groups."""
    show(client().items("groups"), ["name", "id"], output, ["created_at"])


@group_app.command("create")
def group_create(name: str) -> None:
    """Create a group and print its id."""
    typer.echo(client().request("POST", "groups", {"name": name})["id"])


@group_app.command("rename")
def group_rename(name: GroupName, new_name: str) -> None:
    """Rename a group."""
    api = client()
    api.request("PATCH", path_of(api, "groups", name), {"name": new_name})


@group_app.command("delete")
def group_delete(name: GroupName, yes: Yes = False) -> None:
    """Delete a group. Its members stay."""
    api = client()
    path = path_of(api, "groups", name)
    roles = len(api.items("role-bindings", group=name))
    confirm_deletion(f"group {name}", f"{roles} role bindings", yes)
    api.request("DELETE", path)


@group_app.command("members")
def group_members(name: GroupName, output: Output = "table") -> None:
    """List the users and groups in a group."""
    api = client()
    show(api.items(f"{path_of(api, 'groups', name)}/members"), ["user", "group", "id"], output)


@group_app.command("add")
def group_add(name: GroupName, user: UserOption = "", group: GroupOption = "") -> None:
    """Add a user, or a group with its members."""
    api = client()
    api.request("POST", f"{path_of(api, 'groups', name)}/members", given(user=user, group=group))


@group_app.command("remove")
def group_remove(
    name: GroupName, user: UserOption = "", group: GroupOption = "", yes: Yes = False
) -> None:
    """Remove a user or a group from a group."""
    api = client()
    path = f"{path_of(api, 'groups', name)}/members"
    for member in api.items(path):
        if (member["user"] or "", member["group"] or "") == (user, group):
            roles = len(api.items("role-bindings", group=name))
            confirm(f"End the {roles} roles that {user or group} has through {name}?", yes)
            api.request("DELETE", f"{path}/{member['id']}")
            return
    raise rest.ApiError(
        f"{user or group or 'The empty name'} is not in {name}.", rest.EXIT_NOT_FOUND
    )


@role_app.command("list")
def role_list(output: Output = "table") -> None:
    """List the built-in and the added roles with their privileges."""
    show(client().items("roles"), ["name", "built_in", "privileges"], output, ["id"])


@role_app.command("create")
def role_create(name: str, privilege: PrivilegeOption) -> None:
    """Add a role and print its id."""
    body = {"name": name, "privileges": privilege}
    typer.echo(client().request("POST", "roles", body)["id"])


@role_app.command("set")
def role_set(name: RoleName, privilege: PrivilegeOption) -> None:
    """Replace the privileges of a role."""
    api = client()
    api.request("PATCH", path_of(api, "roles", name), {"privileges": privilege})


@role_app.command("delete")
def role_delete(name: RoleName, yes: Yes = False) -> None:
    """Delete a role. Fails while it is bound."""
    api = client()
    path = path_of(api, "roles", name)
    confirm_deletion(f"role {name}", "its list of privileges", yes)
    api.request("DELETE", path)


@binding_app.command("list")
def binding_list(
    user: UserOption = "",
    group: GroupOption = "",
    project: ProjectOption = "",
    department: DepartmentOption = "",
    site: SiteOption = "",
    node: NodeOption = "",
    gpu: GpuOption = "",
    pool: PoolOption = "",
    output: Output = "table",
) -> None:
    """List role bindings."""
    place = given(project=project, department=department, site=site, node=node, gpu=gpu, pool=pool)
    filters = given(user=user, group=group) | place
    show_bindings(client().items("role-bindings", **filters), output)


@binding_app.command("create")
def binding_create(
    role: RoleName,
    user: UserOption = "",
    group: GroupOption = "",
    project: ProjectOption = "",
    department: DepartmentOption = "",
    site: SiteOption = "",
    node: NodeOption = "",
    gpu: GpuOption = "",
    pool: PoolOption = "",
) -> None:
    """Bind a role at one place and print the id. Without a place it holds everywhere."""
    place = given(project=project, department=department, site=site, node=node, gpu=gpu, pool=pool)
    body = given(role=role, user=user, group=group) | place
    typer.echo(client().request("POST", "role-bindings", body)["id"])


@binding_app.command("delete")
def binding_delete(binding_id: str, yes: Yes = False) -> None:
    """End a role binding."""
    api = client()
    row = row_of(api, "role-bindings", binding_id)
    confirm_deletion(f"role binding {described(row)}", "the privileges that it grants", yes)
    api.request("DELETE", f"role-bindings/{row['id']}")
