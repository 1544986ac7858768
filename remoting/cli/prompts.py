"""Questions that a command asks in a terminal, or that the lines of standard input answer."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from remoting.cli.api import EXIT_USAGE, ApiError

PasswordStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin",
        help="Read each password and code that is asked for from a line of standard input.",
    ),
]


def has_terminal() -> bool:
    """Return whether standard input is a terminal. It is None if it was closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(prompt: str, instead: str, *, hidden: bool = True, reads_stdin: bool = False) -> str:
    """Ask in the terminal, hidden without echo. Without one, `reads_stdin` reads a line.

    Standard input decides: a command without it must not ask at the terminal of its session. What
    is not a terminal is not read unless the user says so: it may be the list of a loop. Blocks
    until there is an answer. Raises ApiError at the end of standard input, or without a terminal,
    with `instead`, a sentence that says how to repeat the command.
    """
    question = prompt.rstrip(": ")
    if reads_stdin and not has_terminal():
        if sys.stdin is not None and (line := sys.stdin.readline()):
            return line.rstrip("\n")
        raise ApiError(f"{question}: standard input has no more lines.", EXIT_USAGE)
    if has_terminal():
        return getpass.getpass(prompt) if hidden else str(typer.prompt(prompt, prompt_suffix=""))
    raise ApiError(f"{question}: there is no terminal to ask in. {instead}", EXIT_USAGE)
