"""Confirmation of commands that destroy something."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli import api as rest
from remoting.cli.prompts import has_terminal

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for a confirmation.")]


def confirm_deletion(subject: str, lost: str, yes: bool) -> None:
    """Ask whether to delete the subject and what is lost with it.

    Raises ApiError without a terminal, and typer.Abort if the answer is no.
    """
    confirm(f"Delete {subject}, with {lost}?", yes)


def confirm(question: str, yes: bool) -> None:
    """Ask a question. Raises ApiError without a terminal, and typer.Abort if the answer is no."""
    if yes:
        return
    if not has_terminal():
        raise rest.ApiError(f"{question} There is no terminal: repeat with --yes.", rest.EXIT_USAGE)
    typer.confirm(question, abort=True)
