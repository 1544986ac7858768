"""Command line of the agent: `python -m nodes enrol | run`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

from nodes import log_format
from nodes.errors import NodeError
from nodes.top_level import exit_status_of


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="busbar-agent", description="Agent of a node: connects its GPUs to the appliance."
    )
    parser.add_argument(
        "--folder",
        type=Path,
        required=True,
        help="folder of keys, certificates and identity of this node; mode 0700",
    )
    parser.add_argument(
        "--log-format",
        choices=log_format.FORMATS,
        help="format of log lines; by default that of BUSBAR_LOG_FORMAT, or text",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    enrol = commands.add_parser("enrol", help="redeem an enrolment token")
    enrol.add_argument(
        "--token", required=True, help="token printed by `busbar node token`, or @FILE"
    )
    run = commands.add_parser("run", help="run until SIGTERM")
    run.add_argument("--launcher-socket", type=Path, required=True, help="socket of the launcher")
    run.add_argument(
        "--appliance",
        metavar="HOST:PORT",
        help="address of the fleet service, if it changed since the enrolment",
    )
    run.add_argument(
        "--appliance-url",
        metavar="URL",
        help="URL of the appliance, if it changed since the enrolment",
    )
    run.add_argument(
        "--address",
        action="append",
        default=[],
        help="address at which clients reach the launcher; may be repeated",
    )
    return parser


def main() -> int:
    arguments = build_parser().parse_args()
    log_format.choose(arguments.log_format)
    log_format.log_to_stderr()
    command = {"enrol": run_enrol, "run": run_agent}[arguments.command]
    return exit_status_of(
        "busbar-agent",
        lambda: command(arguments),
        NodeError,
        is_service=arguments.command == "run",
    )


def run_enrol(arguments: argparse.Namespace) -> int:
    from nodes.enrolment import enrol

    token = arguments.token
    if token.startswith("@"):
        token = Path(token[1:]).read_text()
    identity = enrol(arguments.folder, token)
    print(f"Enrolled as node {identity.node_name}.")
    return 0


def run_agent(arguments: argparse.Namespace) -> int:
    from nodes.agent import Agent
    from nodes.credential_keeper import CredentialKeeper
    from nodes.launcher_control import LauncherControl

    async def run() -> None:
        keeper = CredentialKeeper(
            arguments.folder, arguments.appliance or "", arguments.appliance_url or ""
        )
        await Agent(
            keeper,
            LauncherControl(arguments.launcher_socket),
            arguments.address or ["127.0.0.1"],
        ).run()

    with lock_folder(arguments.folder):
        asyncio.run(run())
    return 0


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder. Raises NodeError if another agent runs with the same identity."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "agent.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NodeError(f"Another agent runs with the identity in {folder}.") from None
        yield


if __name__ == "__main__":
    sys.exit(main())
