"""The command `busbar completion`."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.completion import get_completion_script

from remoting.cli.errors import EXIT_USAGE, ApiError


def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")] = "bash",
) -> None:
    """Print the completion script of a shell: eval "$(busbar completion bash)"."""
    if shell not in ("bash", "zsh", "fish"):
        raise ApiError(f"No completion for {shell}; expected bash, zsh or fish.", EXIT_USAGE)
    typer.echo(
        get_completion_script(prog_name="busbar", complete_var="_BUSBAR_COMPLETE", shell=shell)
    )
