"""Questions that a command asks in a terminal, or that the lines of standard input answer."""

from __future__ import annotations

import getpass
import sys

import typer

from remoting.cli.api import EXIT_USAGE, ApiError


def has_terminal() -> bool:
    """Return whether standard input is a terminal. It is None if it was closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(prompt: str, instead: str, *, hidden: bool = True) -> str:
    """Ask in the terminal, hidden without echo. Without a terminal, read a line and show nothing.

    Standard input decides: a command without it must not ask at the terminal of its session.
    Blocks until there is an answer. Raises ApiError with `instead`, a sentence that says how to
    repeat the command, at the end of standard input.
    """
    if has_terminal():
        return getpass.getpass(prompt) if hidden else str(typer.prompt(prompt, prompt_suffix=""))
    if sys.stdin is not None and (line := sys.stdin.readline()):
        return line.rstrip("\n")
    question = prompt.rstrip(": ")
    raise ApiError(f"{question}: there is no terminal to ask in. {instead}", EXIT_USAGE)
