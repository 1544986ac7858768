"""The commands `busbar project` and `busbar department`."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show, show_one

project_app = typer.Typer(no_args_is_help=True, help="Manage projects.")
department_app = typer.Typer(
    no_args_is_help=True, help="Manage departments: groups of projects with a common quota."
)
ProjectName = Annotated[str, typer.Argument(autocompletion=complete_names("projects"))]
DepartmentName = Annotated[str, typer.Argument(autocompletion=complete_names("departments"))]
PROJECT_COLUMNS = ["name", "department", "id"]
DEPARTMENT_COLUMNS = ["name", "id"]


@project_app.command("list")
def project_list(output: Output = "table") -> None:
    """List the projects that are visible to you."""
    show(client().items("projects"), PROJECT_COLUMNS, output)


@project_app.command("create")
def project_create(
    name: str, department: Annotated[str, typer.Option(help="Name of its department.")] = ""
) -> None:
    """Create a project and print its id."""
    typer.echo(client().request("POST", "projects", {"name": name, "department": department})["id"])


@project_app.command("set")
def project_set(name: ProjectName, department: str, output: Output = "table") -> None:
    """Move a project to a department; "" for none."""
    api = client()
    path = path_of(api, "projects", name)
    show_one(api.request("PATCH", path, {"department": department}), PROJECT_COLUMNS, output)


@project_app.command("rename")
def project_rename(name: ProjectName, new_name: str) -> None:
    """Rename a project."""
    api = client()
    path = path_of(api, "projects", name)
    api.request("PATCH", path, {"name": new_name})


@project_app.command("delete")
def project_delete(name: ProjectName, yes: Yes = False) -> None:
    """Delete a project with its history, quota and role bindings."""
    api = client()
    path = path_of(api, "projects", name)
    confirm_deletion(f"project {name}", "its history, quota and role bindings", yes)
    api.request("DELETE", path)


@department_app.command("list")
def department_list(output: Output = "table") -> None:
    """List departments."""
    show(client().items("departments"), DEPARTMENT_COLUMNS, output)


@department_app.command("create")
def department_create(name: str) -> None:
    """Create a department and print its id."""
    typer.echo(client().request("POST", "departments", {"name": name})["id"])


@department_app.command("rename")
def department_rename(name: DepartmentName, new_name: str) -> None:
    """Rename a department."""
    api = client()
    path = path_of(api, "departments", name)
    api.request("PATCH", path, {"name": new_name})


@department_app.command("delete")
def department_delete(name: DepartmentName, yes: Yes = False) -> None:
    """Delete a department. Fails while it has projects."""
    api = client()
    path = path_of(api, "departments", name)
    confirm_deletion(f"department {name}", "its quota and role bindings", yes)
    api.request("DELETE", path)
