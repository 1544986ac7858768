"""The examples of the guide for VS Code: its terminal in code-server, and its debugger for Python.

The extensions of VS Code come from registries of their own. The debugger runs without them, since
it is debugpy, whose adapter gets what the extension makes of `.vscode/launch.json`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.packages.accounts import Account
from tests.packages.code_server import CodeServer
from tests.packages.debug_adapter import debugger
from tests.packages.guide import assert_ran_on_quarter, example
from tests.packages.machines import Machine
from tests.packages.test_python_wrapper import PROGRAM, share_of
from tests.system.conftest import DEMO, Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
LAST_LINE = len(PROGRAM.splitlines())


def test_program_in_the_terminal_of_vscode_runs_on_a_gpu(ada: Account, pool: Pool) -> None:
    (line,) = (text for text in example("Terminal", "").splitlines() if "smi" in text)
    server = CodeServer(ada)
    server.start()
    output = ada.machine.path(f"{ada.home}/terminal.log")
    ada.machine.install(Path(DEMO), f"{ada.home}/program")
    with server.terminal() as keys:
        command = line.partition("#")[0].replace("busbar smi", "./program memory")
        keys.press_sequentially(f"({command}; echo in $TERM_PROGRAM) >terminal.log 2>&1\n")
        server.wait("the program", lambda: output.exists() and "in vscode" in output.read_text())
    assert_ran_on_quarter(pool, output.read_text())


@pytest.fixture(scope="module")
def configuration(server: Machine, ada: Account) -> dict[str, Any]:
    """The example of the guide for a program of the user, as the extension passes it on."""
    server.run_well("apt-get", "install", "-y", "-q", "--no-install-recommends", "python3-debugpy")
    program = f"{ada.home}/program.py"
    server.path(program).write_text(PROGRAM)
    text = example("VS Code and other IDEs", "json")
    for name, real in {
        "${file}": program,
        "${env:HOME}/.local/bin/busbar-python": "/usr/bin/busbar-python",
    }.items():
        assert name in text
        text = text.replace(name, real)
    (found,) = json.loads(text)["configurations"]
    chosen = {"debugLauncherPython": "/usr/bin/python3", "console": "integratedTerminal"}
    return {**found, **chosen, "cwd": ada.home}


@pytest.mark.parametrize("python", ["/usr/bin/python3", "/usr/bin/busbar-python"])
def test_debugger_stops_in_a_program_that_has_a_gpu(
    ada: Account, configuration: dict[str, Any], pool: Pool, python: str
) -> None:
    with debugger(ada, python) as session:
        frame = session.run_to({**configuration, "debugLauncherPython": python}, LAST_LINE)
        assert session.value_of("total.value", frame) == str(share_of(pool, 25))
        assert len(pool.api.items("partitions")) == 1
        session.request("continue", threadId=0)
        assert session.event("exited")["exitCode"] == 0


def test_program_that_the_debugger_ends_releases_its_gpu(
    ada: Account, configuration: dict[str, Any], pool: Pool
) -> None:
    with debugger(ada) as session:
        session.run_to(configuration, LAST_LINE)
        assert pool.api.items("partitions")
        session.request("disconnect", terminateDebuggee=True)
        with pool.short_lease():  # the debugger kills `busbar run`
            pool.wait("the release", lambda: not pool.api.items("partitions"))
