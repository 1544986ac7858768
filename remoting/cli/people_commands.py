"""The commands `busbar user`, `group`, `role` and `role-binding`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli import api as rest
from remoting.cli.collection_commands import Collection
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm, confirm_deletion
from remoting.cli.field_options import field_options
from remoting.cli.object_ids import described, path_of, row_of
from remoting.cli.output import Output, client, print_structured, show, show_one

USERS = Collection(
    "users",
    "Manage users.",
    [
        "username",
        "email",
        "is_active",
        "is_service",
        "source",
        "must_change_password",
        "second_factor_since",
        "id",
    ],
    fields=("email", "is_active", "is_service", "must_change_password", "created_at", "id"),
)
GROUPS = Collection("groups", "Manage groups of users.")
ROLES = Collection(
    "roles",
    "Manage roles, which are sets of privileges.",
    ["name", "built_in", "privileges"],
    ["id"],
    ("built_in", "privileges", "id"),
)
binding_app = typer.Typer(
    no_args_is_help=True,
    help="Manage role bindings: a role of a user or group in a project, in all projects of a "
    "department, at a site, node, GPU or pool, or on the whole appliance.",
)
RoleName = Annotated[str, typer.Argument(autocompletion=complete_names("roles"))]
UserOption = Annotated[str, typer.Option(help="Name of a user.")]
GroupOption = Annotated[str, typer.Option(help="Name of a group.")]
PrivilegeOption = Annotated[
    list[str], typer.Option("--privilege", help="Name of a privilege. Can be repeated.")
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


USERS.lists()
USERS.deletes(
    "Delete a user. Prefer `busbar user set NAME --inactive`, which keeps the history.",
    lambda api, name: (
        f"tokens, roles and the history of {count_allocations(api, name)} allocations"
    ),
)
GROUPS.lists()
GROUPS.creates()
GROUPS.renames()
GROUPS.deletes(
    "Delete a group. Its members stay.",
    lambda api, name: f"{len(api.items('role-bindings', group=name))} role bindings",
)
ROLES.lists("List the built-in and the added roles with their privileges.")
ROLES.deletes("Delete a role. Fails while it is bound.", "its list of privileges")


@USERS.app.command("create")
@field_options("users", "username", "is_active", flags={"is_service": "--service"})
def user_create(name: str, output: Output = "table", **values: Any) -> None:
    """Create a user without roles and print a one-time password."""
    user = client().request("POST", "users", {"username": name} | values)
    show_one(user, ["username", "one_time_password", "id"], output)


@USERS.app.command("set")
@field_options("users", "username", "is_service", flags={"is_active": "--active/--inactive"})
@USERS.named
def user_set(name: str, yes: Yes = False, output: Output = "table", **values: Any) -> None:
    """Change a user. Options that are not given keep their values."""
    api = client()
    path = path_of(api, "users", name)
    if values.get("is_active") is False:
        count = sum(count_allocations(api, name, state=state) for state in LIVE_STATES)
        confirm(f"End the sign-ins, the tokens and {count} allocations of {name}?", yes)
    show_one(api.request("PATCH", path, values), USERS.columns, output)


def count_allocations(api: rest.Api, owner: str, state: str | None = None) -> int:
    query = {"owner": owner, "limit": "1", "count": "true"} | given(state=state)
    page = api.send("GET", "allocations", query=query)
    return int(page["count"])


@USERS.app.command("reset-password")
@USERS.named
def user_reset_password(name: str, yes: Yes = False) -> None:
    """Print a new one-time password. All tokens of the user end."""
    api = client()
    path = path_of(api, "users", name)
    confirm(f"End the password, the sign-ins and all tokens of {name}?", yes)
    response = api.request("POST", f"{path}/reset-password")
    typer.echo(response["one_time_password"])


@USERS.app.command("reset-second-factor")
@USERS.named
def user_reset_second_factor(name: str, yes: Yes = False) -> None:
    """Remove the second factor of a user who has lost it. Their sign-ins end."""
    api = client()
    path = path_of(api, "users", name)
    confirm(f"Remove the second factor, passkeys and recovery codes of {name}?", yes)
    api.request("DELETE", f"{path}/second-factor")


@GROUPS.app.command("members")
@GROUPS.named
def group_members(name: str, output: Output = "table") -> None:
    """List the users and groups in a group."""
    api = client()
    show(api.items(f"{path_of(api, 'groups', name)}/members"), ["user", "group", "id"], output)


@GROUPS.app.command("add")
@GROUPS.named
def group_add(name: str, user: UserOption = "", group: GroupOption = "") -> None:
    """Add a user, or a group with its members."""
    api = client()
    api.request("POST", f"{path_of(api, 'groups', name)}/members", given(user=user, group=group))


@GROUPS.app.command("remove")
@GROUPS.named
def group_remove(
    name: str, user: UserOption = "", group: GroupOption = "", yes: Yes = False
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


@ROLES.app.command("create")
def role_create(name: str, privilege: PrivilegeOption) -> None:
    """Add a role and print its id."""
    body = {"name": name, "privileges": privilege}
    typer.echo(client().request("POST", "roles", body)["id"])


@ROLES.app.command("set")
@ROLES.named
def role_set(name: str, privilege: PrivilegeOption) -> None:
    """Replace the privileges of a role."""
    api = client()
    api.request("PATCH", path_of(api, "roles", name), {"privileges": privilege})


def filter_of(kind: str) -> Any:
    """Return the option that selects role bindings by the name of an object."""
    return typer.Option(help=f"Name of a {kind}.", autocompletion=complete_names(f"{kind}s"))


@binding_app.command("list")
def binding_list(
    user: Annotated[str, filter_of("user")] = "",
    group: Annotated[str, filter_of("group")] = "",
    project: Annotated[str, filter_of("project")] = "",
    department: Annotated[str, filter_of("department")] = "",
    site: Annotated[str, filter_of("site")] = "",
    node: Annotated[str, filter_of("node")] = "",
    gpu: Annotated[str, typer.Option(help="NODE/INDEX of a GPU.")] = "",
    pool: Annotated[str, filter_of("pool")] = "",
    output: Output = "table",
) -> None:
    """List role bindings, those of the given user, group or place if there is one."""
    place = given(project=project, department=department, site=site, node=node, gpu=gpu, pool=pool)
    filters = given(user=user, group=group) | place
    show_bindings(client().items("role-bindings", **filters), output)


@binding_app.command("create")
@field_options("role-bindings", "role", absent="")
def binding_create(role: RoleName, **values: Any) -> None:
    """Bind a role at one place and print the id. Without a place it holds everywhere."""
    typer.echo(client().request("POST", "role-bindings", {"role": role} | values)["id"])


@binding_app.command("delete")
def binding_delete(binding_id: str, yes: Yes = False) -> None:
    """End a role binding."""
    api = client()
    row = row_of(api, "role-bindings", binding_id)
    confirm_deletion(f"role binding {described(row)}", "the privileges that it grants", yes)
    api.request("DELETE", f"role-bindings/{row['id']}")
