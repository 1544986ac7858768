"""No value of an argument or option makes a command print a traceback or an internal error."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from nodes.top_level import exit_status_of
from remoting.cli.errors import ApiError
from remoting.cli.main import app
from tests.unit.test_every_command import dead_port, value_of

BUSBAR: Any = typer.main.get_command(app)
DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 126, 127}
HOSTILE = (
    "",
    "x" * 10_000,
    "a\x01\x1b[31m\x7f\x9b\r\nb",
    "\u202etxt.\u2066exe\u2069",
    "\udcff\udc80",
    "../../x",
    "-1",
    "--",
    "9" * 400,
    "-9223372036854775809",
    "nan",
    "1e999",
    "=",
    "[/bold]",
    "https://[",
)
"""Each stands for a kind: empty, long, control characters, marks of direction, bytes that are no
UTF-8, a path, options, numbers out of range, an empty pair, markup and a damaged URL."""


def leaves(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the commands that have parameters, with their names."""
    if isinstance(command, TyperGroup):
        for name, sub in command.commands.items():
            yield from leaves(sub, *names, name)
    elif [p for p in command.params if p.name != "help"]:
        yield names, command


def lines_with(command: Any, value: str) -> Iterator[list[str]]:
    """Yield command lines in which one parameter has the value and the others a usual one."""
    for tried in command.params:
        if isinstance(tried, TyperOption) and tried.is_flag:
            continue
        options, arguments = [], []
        for p in command.params:
            given = value if p is tried else value_of(p)
            if isinstance(p, TyperArgument):
                arguments.append(given)
            elif p is tried or p.required:
                options.append(f"{p.opts[-1]}={given}")
        yield [*options, *(["--", *arguments] if arguments else [])]


def programs(folder: Path) -> str:
    """Return a folder with a Python and a busbar that succeed at once, for kernels of Jupyter."""
    found = folder / "bin"
    found.mkdir()
    for name in ("python", "python3", "busbar"):
        (found / name).write_text("#!/bin/sh\necho {}\n")
        (found / name).chmod(0o755)
    return str(found)


LEAVES = list(leaves(BUSBAR))


@pytest.mark.parametrize(("names", "command"), LEAVES, ids=[" ".join(n) for n, _ in LEAVES])
def test_command_refuses_hostile_values_with_a_sentence(
    names: tuple[str, ...],
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variables = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)} | dead_port(tmp_path)
    variables |= {"VIRTUAL_ENV": str(tmp_path), "PATH": programs(tmp_path)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    for line in (line for value in HOSTILE for line in lines_with(command, value)):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        status = status_of([*names, *line])
        printed = capsys.readouterr()
        told = f"{line!r:.300}: {status}\n{printed.err:.600}"
        assert "Traceback" not in printed.err and "internal error" not in printed.err, told
        assert status in DOCUMENTED and (status == 0 or printed.err), told
        assert not {"\x1b", "\x01", "\x9b", "\u202e"} & set(printed.err + printed.out), told


def status_of(line: list[str]) -> int:
    try:
        return exit_status_of("busbar", lambda: BUSBAR(line, prog_name="busbar"), ApiError)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 1
