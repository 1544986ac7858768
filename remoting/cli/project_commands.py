"""The commands `busbar project` and `busbar department`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.collection_commands import Collection
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show_one

PROJECTS = Collection("projects", "Manage projects.")
PROJECTS.lists("List the projects that are visible to you.")
PROJECTS.renames()
PROJECTS.deletes(
    "Delete a project with its history, quota and role bindings.",
    "its history, quota and role bindings",
)
DEPARTMENTS = Collection(
    "departments", "Manage departments: groups of projects with a common quota."
)
DEPARTMENTS.lists()
DEPARTMENTS.creates()
DEPARTMENTS.renames()
DEPARTMENTS.deletes(
    "Delete a department. Fails while it has projects.", "its quota and role bindings"
)


@PROJECTS.app.command("create")
def project_create(
    name: str,
    department: Annotated[str, typer.Option(help="Name of its department.")] = "",
) -> None:
    """Create a project and print its id."""
    body = {"name": name, "department": department}
    typer.echo(client().request("POST", "projects", body)["id"])


@PROJECTS.app.command("set")
@PROJECTS.named
def project_set(name: str, department: str, output: Output = "table") -> None:
    """Move a project to a department; "" for none."""
    api = client()
    row = api.request("PATCH", path_of(api, "projects", name), {"department": department})
    show_one(row, PROJECTS.columns, output)
