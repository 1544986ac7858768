"""Commands import only what they need: people and shell prompts wait for each of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from deploy.supervisor import ROOT
from remoting.cli.command_table import TABLE, Place
from remoting.cli.main import app

PROGRAM = """
import sys
from remoting.cli.main import main

try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HTTP = {"httpx", "httpcore", "h11", "anyio"}
HEAVY = HTTP | {"cryptography", "rich.console", "rich.table", "yaml", "pygments", "_ssl", "pynvml"}


def imported_by(folder: Path, *line: str) -> set[str]:
    """Return the names of the modules that a command line has imported at its end."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BUSBAR_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *line],
        env=environment | {"BUSBAR_CONTEXT": str(folder / "absent")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "remoting.cli.main" in done.stderr, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("line", [["--version"], ["completion", "bash"]], ids=" ".join)
def test_command_that_only_prints_imports_no_heavy_package(line: list[str], tmp_path: Path) -> None:
    assert imported_by(tmp_path, *line) & HEAVY == set()


@pytest.mark.parametrize("line", [["-h"], ["node", "-h"], ["node", "list"]], ids=" ".join)
def test_command_without_connection_imports_no_http_library(
    line: list[str], tmp_path: Path
) -> None:
    assert imported_by(tmp_path, *line) & (HTTP | {"yaml", "cryptography"}) == set()


def test_command_imports_no_other_command(tmp_path: Path) -> None:
    found = imported_by(tmp_path, "node", "list")
    others = {"apply_command", "login_command", "people_commands", "run_command", "smi_command"}
    assert "remoting.cli.node_commands" in found
    assert found & {f"remoting.cli.{name}" for name in others} == set()


@pytest.mark.parametrize("name", TABLE)
def test_command_of_the_table_is_loaded_under_its_name(name: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert isinstance(commands.data[name], Place)
    assert commands[name].name == name and commands[name].help
