"""`busbar-python`: a Python interpreter for IDEs, whose programs get a share of a GPU.

IDEs run the interpreter also to learn its version and packages. Such calls must not wait for a GPU.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from nodes.top_level import exit_status_of
from remoting.cli.api import EXIT_USAGE, ApiError

DEFAULT_REQUEST = "-p 10"
WITH_VALUE = "WX"
INFORMATION = "VhI?"
"""Options of Python that print something and end; IDEs call their own scripts with -I."""
LONG_WITH_VALUE = ("--check-hash-based-pycs",)
TOOLS = ("ensurepip", "pip", "site", "sysconfig", "venv", "virtualenv")
"""Modules that need no GPU."""
DEBUGGER = ("debugpy.adapter", "debugpy.launcher")
"""Parts of the debugger that start the program. The GPU is for that one, as `launch.json` asks."""


def chosen_python(given: str = "") -> str:
    """Return the absolute path of the Python of programs. Raises ApiError if there is none.

    That is the given one, or else that of the active environment, or else `python3`.
    """
    environment = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    wanted = given or (f"{environment}/bin/python" if environment else "python3")
    found = shutil.which(wanted)
    if found is None:
        raise ApiError(f"There is no Python {wanted}. Name one with BUSBAR_PYTHON or --python.")
    if Path(found).resolve().name == "busbar-python":
        raise ApiError(f"{found} is busbar-python itself. Name a Python with BUSBAR_PYTHON.")
    return str(Path(found).absolute())


def needs_gpu(arguments: Sequence[str]) -> bool:
    """Return whether arguments of Python run a program, and not a question about the interpreter.

    Programs are scripts and modules other than TOOLS and DEBUGGER, standard input and interactive
    sessions.
    """
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "-" or not argument.startswith("-"):
            return ".".join(Path(argument).parts[-2:]) not in DEBUGGER
        if argument.startswith("--"):
            if argument in LONG_WITH_VALUE:
                rest[:1] = []
                continue
            return False  # --help, --version and others that only print
        if (decided := decided_by(argument[1:], rest)) is not None:
            return decided
    return True


def decided_by(letters: str, rest: list[str]) -> bool | None:
    """Return what one group of short options decides. Removes its value from `rest`."""
    for place, letter in enumerate(letters):
        value = letters[place + 1 :]
        if letter == "c" or letter in INFORMATION:
            return False
        if letter == "m":
            module = value or next(iter(rest), "")
            return module.partition(".")[0] not in TOOLS and module not in DEBUGGER
        if letter in WITH_VALUE:
            if not value:
                rest[:1] = []
            return None
    return None


def run(arguments: Sequence[str]) -> int:
    """Replace this process by Python, or run it on GPUs and return its exit code."""
    python = chosen_python(os.environ.get("BUSBAR_PYTHON", ""))
    if "BUSBAR_TICKET_FILE" in os.environ or not needs_gpu(arguments):
        os.execv(python, [python, *arguments])  # noqa: S606 - the user's own Python
    from remoting.cli.main import app

    try:
        request = shlex.split(os.environ.get("BUSBAR_PYTHON_REQUEST", DEFAULT_REQUEST))
    except ValueError as error:
        raise ApiError(f"BUSBAR_PYTHON_REQUEST is malformed: {error}.", EXIT_USAGE) from None
    app(["run", *request, "--", python, *arguments], prog_name="busbar")
    return 0


def main() -> None:
    """Run `busbar-python`."""
    sys.exit(exit_status_of("busbar-python", lambda: run(sys.argv[1:]), ApiError))
