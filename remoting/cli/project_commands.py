"""The commands `busbar project` and `busbar department`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from remoting.cli.collection_commands import Collection
from remoting.cli.field_options import field_options
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show_one

PROJECTS = Collection("projects", "Manage projects.")
PROJECTS.lists("List the projects that are visible to you.")
PROJECTS.renames()
PROJECTS.deletes(
    " with its history, quota and role bindings.", "its history, quota and role bindings"
)
DEPARTMENTS = Collection(
    "departments", "Manage departments: groups of projects with a common quota."
)
DEPARTMENTS.lists()
DEPARTMENTS.creates()
DEPARTMENTS.renames()
DEPARTMENTS.deletes(". Fails while it has projects.", "its quota and role bindings")


@PROJECTS.app.command("create")
@field_options("projects", "name")
def project_create(
    name: str,
    department: Annotated[str, typer.Option(help="Name of its department.")] = "",
    **values: Any,
) -> None:
    """Create a project and print its id."""
    body = {"name": name, "department": department} | values
    typer.echo(client().request("POST", "projects", body)["id"])


@PROJECTS.app.command("set")
@field_options("projects", "name")
@PROJECTS.named
def project_set(name: str, department: str, output: Output = "table", **values: Any) -> None:
    """Move a project to a department; "" for none."""
    api = client()
    changes = {"department": department} | values
    row = api.request("PATCH", path_of(api, "projects", name), changes)
    show_one(row, PROJECTS.columns, output)
