"""The commands of a collection of objects with names.

Columns, fields and options are those that the REST API describes. What is special is a function
beside the declaration of the collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from remoting.cli.api import Api
from remoting.cli.api_fields import readable_fields_of
from remoting.cli.completion import complete_names
from remoting.cli.confirmation import Yes, confirm_deletion
from remoting.cli.field_options import field_options
from remoting.cli.object_ids import path_of
from remoting.cli.output import Output, client, show, show_one
from remoting.cli.sheet import Related, Row, print_sheet

Command = Callable[..., None]
RelatedTables = Callable[[Api, Row], list[Related]]


def no_tables(api: Api, row: Row) -> list[Related]:
    return []


@dataclass
class Collection:
    """A collection such as `pools`. Each method but `named` adds a command to its group.

    Without columns and fields, lists and sheets have the fields that requests set; wide lists also
    have maps and the time of creation.
    """

    path: str
    help_text: str
    columns: Sequence[str] = ()
    wide: Sequence[str] = ()
    fields: Sequence[str] = ()
    flags: Mapping[str, str] | None = None
    """Names of switches that are not called like their field."""

    def __post_init__(self) -> None:
        self.app = typer.Typer(no_args_is_help=True, help=self.help_text)
        self.plural = self.path.replace("-", " ")
        self.noun = self.plural.removesuffix("s")
        # No kind with an initial u has "an" before it: a user, a unit.
        article = "an" if self.noun.startswith(tuple("aeio")) else "a"
        self.noun_with_article = f"{article} {self.noun}"
        settings = readable_fields_of(self.path, "name")
        maps = [name for name, schema in settings.items() if schema["type"] == "object"]
        plain = [name for name in settings if name not in maps]
        self.columns = self.columns or ["name", *plain, "id"]
        self.wide = self.wide or [*maps, "created_at"]
        self.fields = self.fields or [*plain, *maps, "created_at", "id"]

    def named(self, command: Command) -> Command:
        """Let the argument `name` of a command complete the names of the objects."""
        assert "name" in command.__annotations__
        argument = typer.Argument(autocompletion=complete_names(self.path))
        command.__annotations__["name"] = Annotated[str, argument]
        return command

    def lists(self, help_text: str = "", **query: str) -> None:
        """Add `list`, which sends `query` with each request."""

        @self.app.command("list", help=help_text or f"List {self.plural}.")
        def run(output: Output = "table") -> None:
            show(client().items(self.path, **query), self.columns, output, self.wide)

    def shows(self, related: RelatedTables = no_tables) -> RelatedTables:
        """Add `show` with the tables that a function returns. Its docstring is the help."""

        @self.app.command("show", help=related.__doc__ or f"Show {self.noun_with_article}.")
        @self.named
        def run(name: str, output: Output = "table") -> None:
            api = client()
            row = api.find_by_name(self.path, name)
            title = f"{self.noun.capitalize()} {name}"
            print_sheet(title, row, self.fields, related(api, row), output)

        return related

    def creates(self, help_text: str = "", without: Sequence[str] = (), **defaults: str) -> None:
        """Add `create` with all fields but those in `without`. `defaults` are sent unless given."""
        text = help_text or f"Create {self.noun_with_article} and print its id."

        @self.app.command("create", help=text)
        @field_options(self.path, "name", *without, flags=self.flags)
        def run(name: str, **values: Any) -> None:
            body = {"name": name} | defaults | values
            typer.echo(client().request("POST", self.path, body)["id"])

    def changes(self, *without: str, columns: Sequence[str] = ()) -> None:
        """Add `set` with all fields but those in `without`."""
        text = f"Change {self.noun_with_article}. Options that are not given keep their values."

        @self.app.command("set", help=text)
        @field_options(self.path, *without, flags=self.flags)
        @self.named
        def run(name: str, /, output: Output = "table", **values: Any) -> None:
            api = client()
            row = api.request("PATCH", path_of(api, self.path, name), values)
            show_one(row, columns or self.columns, output)

    def renames(self) -> None:
        """Add `rename`, for kinds whose `set` has no option `--name`."""

        @self.app.command("rename", help=f"Rename {self.noun_with_article}.")
        @self.named
        def run(name: str, new_name: str) -> None:
            api = client()
            api.request("PATCH", path_of(api, self.path, name), {"name": new_name})

    def deletes(self, help_text: str, losses: str | Callable[[Api, str], str]) -> None:
        """Add `delete`, which asks first and names what is deleted with the object: `losses`."""

        @self.app.command("delete", help=help_text)
        @self.named
        def run(name: str, yes: Yes = False) -> None:
            api = client()
            path = path_of(api, self.path, name)
            lost = losses if isinstance(losses, str) else losses(api, name)
            confirm_deletion(f"{self.noun} {name}", lost, yes)
            api.request("DELETE", path)
