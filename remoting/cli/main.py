"""The `busbar` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nodes.top_level import exit_status_of
from nodes.version import AGENT_VERSION
from remoting.cli.command_table import CommandTable
from remoting.cli.errors import ApiError

app = typer.Typer(
    cls=CommandTable,
    no_args_is_help=True,
    add_completion=True,
    help="Busbar pools NVIDIA GPUs over the network.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"busbar {AGENT_VERSION}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    show_api: Annotated[
        bool, typer.Option("--show-api", help="Print each request to stderr as a curl command.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Pool NVIDIA GPUs over the network."""
    if show_api:
        trace_requests(context)


def trace_requests(context: typer.Context) -> None:
    """Print requests until the command ends."""
    from remoting.cli.api import Api

    Api.trace = lambda text: typer.echo(text, err=True)
    context.call_on_close(lambda: setattr(Api, "trace", None))


def main() -> None:
    """Run the command line and exit with the code of the error, if any."""
    sys.exit(exit_status_of("busbar", lambda: app(prog_name="busbar"), ApiError))


if __name__ == "__main__":
    main()
