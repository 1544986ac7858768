"""Commands of `busbar-node` that suspend sessions of this node by hand."""

from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from nodes.errors import NodeError
from nodes.launcher_control import LauncherControl, LauncherError
from nodes.paths import RUNTIME

COMMANDS = ("suspend", "resume", "suspensions")
WAIT_SECONDS = 10.0
MAX_WAIT_SECONDS = 600.0
MIB = 1 << 20


def add_suspension_commands(commands: argparse._SubParsersAction[Any]) -> None:
    suspend = commands.add_parser(
        "suspend", help="move the GPU memory of an idle session to host memory"
    )
    suspend.add_argument(
        "--wait",
        type=wait_seconds,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help="time for the end of its work, %(default)s by default; the session goes on after it",
    )
    resume = commands.add_parser("resume", help="move it back before its program has work")
    listing = commands.add_parser("suspensions", help="list suspended sessions and host memory")
    for command in (suspend, resume):
        command.add_argument("session", type=uuid.UUID, metavar="SESSION", help="id of the session")
    for command in (suspend, resume, listing):
        command.add_argument(
            "--launcher-socket",
            type=Path,
            default=RUNTIME / "agent.sock",
            help="socket of the launcher, %(default)s by default",
        )


def wait_seconds(text: str) -> float:
    """Return the value of --wait. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(
            f"must be between 0 and {MAX_WAIT_SECONDS:.0f} seconds (was {text})"
        )
    return seconds


def run_suspension_command(arguments: argparse.Namespace) -> None:
    """Run one of COMMANDS. Raises NodeError with the reason of the launcher."""
    control = LauncherControl(arguments.launcher_socket)
    try:
        if arguments.command == "suspend":
            control.suspend(arguments.session, arguments.wait)
        elif arguments.command == "resume":
            control.resume(arguments.session)
        else:
            print("\n".join(listing_of(control)))
    except LauncherError as error:
        raise NodeError(f"{arguments.command} failed: {error}") from error


def listing_of(control: LauncherControl) -> list[str]:
    found = control.suspensions()
    head = f"host memory: {found.used_bytes // MIB} of {found.budget_bytes // MIB} MiB"
    return [
        head,
        *(
            f"{s.session_id}  {s.state:<10}  {s.host_bytes // MIB} MiB  {s.reason}".rstrip()
            for s in found.sessions
        ),
    ]
