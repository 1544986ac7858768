"""Installation, upgrade and removal of a node, with rollback of an incomplete installation.

Runs on the machine with its own Python and the standard library only. It reports progress and
results on stdout as lines `BUSBAR {json}`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nodes import preflight, software
from nodes.errors import NodeError
from nodes.journal import Journal
from nodes.paths import COMMAND, HOME, LIBRARY, PROGRAMS, RUNTIME, SETTINGS, STATE
from nodes.service import NodeService
from nodes.service_control import (
    has_systemd,
    restart_if_enabled,
    start,
    stop,
    systemctl,
    write_units,
)
from nodes.software import python_environment, run_programs_once, unpack
from nodes.suspension_commands import COMMANDS as SUSPENSION_COMMANDS
from nodes.suspension_commands import add_suspension_commands, run_suspension_command

BUNDLE = Path(__file__).resolve().parents[1]
"""Folder of this program: an unpacked bundle, or that of the installed agent."""
LINE_PREFIX = "BUSBAR "
COMMIT_TIMEOUT_SECONDS = 180
ROLLED_BACK = "The installation was rolled back."
AFTER_INTERRUPTION = {
    "install": ROLLED_BACK,
    "join": ROLLED_BACK,
    "upgrade": "The next upgrade completes it.",
}


def send_message(**fields: Any) -> None:
    print(LINE_PREFIX + json.dumps(fields), flush=True)


def enrol(token: str) -> None:
    """Run the agent's enrolment. Raises NodeError.

    The token is passed in a private file, because every user of the machine can read arguments.
    Python searches the current folder for modules, so it is one of root.
    """
    path = HOME / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    command = [sys.executable, "-m", "nodes", "--folder", str(STATE), "enrol"]
    command += ["--token", f"@{path}"]
    try:
        done = subprocess.run(
            command,
            env=python_environment(),
            cwd=HOME,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.unlink()
    if done.returncode:
        message = done.stderr.strip().removeprefix("busbar-agent: ")[-300:]
        raise NodeError(message or "The enrolment failed without an error message.")


def prepare_paths() -> None:
    """Roll back an incomplete installation.

    Raises NodeError if the machine is a node already, or if other files occupy its folders.
    """
    journal = Journal.load()
    if journal is not None and journal.committed:
        raise NodeError(
            f"This machine is {installed_node()} already. To enrol it again, first run"
            f" `{COMMAND} remove` on it."
        )
    if journal is not None:
        send_message(step="Rolling back an incomplete installation.", percent=5)
        stop()
        journal.roll_back()
    for folder in (HOME, STATE):
        if folder.exists():
            raise NodeError(f"{folder} exists but does not belong to Busbar; move it away.")


def installed_node() -> str:
    try:
        name: str = json.loads((STATE / "current" / "identity.json").read_text())["node_name"]
    except (OSError, ValueError, KeyError):
        return "a node"
    return name


def install(bundle: Path, options: dict[str, Any], wait_for_commit: Callable[[], None]) -> None:
    """Install, enrol and start the node. Rolls back if any step fails."""
    prepare_paths()
    os.umask(0o022)
    journal = Journal()
    try:
        send_message(step="Unpacking the agent and the data plane.", percent=20)
        journal.create_home()
        unpack(bundle, HOME)
        journal.create_folder(STATE, 0o700)
        send_message(step="Testing the programs.", percent=45)
        run_programs_once(HOME)
        service = node_service(options)
        service.save(SETTINGS)
        write_command()
        send_message(step="Enrolling.", percent=60)
        enrol(str(options["token"]))
        if has_systemd():
            write_units(journal, service)
        send_message(step="Starting the launcher and the agent.", percent=75)
        start()
        send_message(step="Waiting for the node to report.", percent=85, waiting=True)
        wait_for_commit()
        journal.committed = True
        journal.save()
    except BaseException:
        stop()
        journal.roll_back()
        raise


def upgrade(bundle: Path) -> bool:
    """Replace the software of the node and restart it, unless it was stopped. Sessions continue.

    Returns False if the machine is being installed as a node, or if that was interrupted; nothing
    is changed then. Raises NodeError if it is no node, or if the new programs do not run on it; the
    node is as before then. An interrupted upgrade is completed by the next one.
    """
    journal = Journal.load()
    if journal is None:
        raise NodeError("This machine is not a node of an appliance.")
    if not journal.committed:
        return False
    os.umask(0o022)
    send_message(step="Unpacking and testing the agent and the data plane.", percent=20)
    software.unpack_beside(bundle)
    service = replace(NodeService.load(SETTINGS), python=sys.executable)
    software.replace()
    service.save(SETTINGS)
    write_command()
    if has_systemd():
        write_units(journal, service)
    send_message(step="Starting the launcher and the agent again.", percent=75)
    restart_if_enabled()
    software.complete()
    return True


def node_service(options: dict[str, Any]) -> NodeService:
    return NodeService(
        programs=str(PROGRAMS),
        softgpu=str(HOME / "softgpu"),
        modules=str(LIBRARY),
        state=str(STATE),
        runtime=str(RUNTIME),
        software_gpus=int(options["software_gpus"]),
        addresses=list(options["addresses"]),
        port=int(options["data_port"]),
        python=sys.executable,
    )


def write_command() -> None:
    """Write the command busbar-node, which runs this module on the installed node."""
    COMMAND.write_text(starter(sys.executable, LIBRARY))
    COMMAND.chmod(0o755)


def starter(python: str, library: Path) -> str:
    """Return a command that starts this module, whatever the current folder contains."""
    return (
        "#!/bin/sh\n# --help lists the commands\n"
        f'exec {python} -B -I -c "import sys; sys.path.insert(0, sys.argv.pop(1));'
        f' from nodes.installation import main; sys.exit(main())" {library} "$@"\n'
    )


def remove() -> bool:
    """Stop the node and delete its files. Returns False if there is no installation."""
    journal = Journal.load()
    if journal is None:
        return False
    stop()
    journal.roll_back()
    if has_systemd():
        systemctl("daemon-reload", check=False)
    return True


def check_machine(options: dict[str, Any]) -> list[dict[str, str]]:
    """Return the table of the preflight."""
    requirements = preflight.Requirements(
        (options["https"][0], options["https"][1]),
        (options["fleet"][0], options["fleet"][1]),
        options["data_port"],
        options["software_gpus"],
        options["appliance_seconds"],
    )
    return [asdict(result) for result in preflight.run_checks(requirements)]


def wait_for_commit_on_stdin() -> None:
    """Wait for the line `commit`, which the appliance sends when the node has reported.

    Raises NodeError for another line, at the end of stdin, or after 180 s.
    """
    signal.alarm(COMMIT_TIMEOUT_SECONDS)
    line = sys.stdin.buffer.readline()
    signal.alarm(0)
    if line.strip() != b"commit":
        raise NodeError(f"The appliance did not confirm the node. {ROLLED_BACK}")


def end_with_error_on_signals(command: str) -> None:
    """Let signals raise NodeError, which says what becomes of the interrupted command."""

    def handle(number: int, frame: object) -> None:
        text = f"The command {command} was interrupted by {signal.Signals(number).name}."
        raise NodeError(f"{text} {AFTER_INTERRUPTION.get(command, '')}".rstrip())

    for s in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(s, handle)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of a bundle, or of the installed command, which has nothing to install."""
    parser = argparse.ArgumentParser(prog="busbar-node")
    commands = parser.add_subparsers(dest="command", required=True)
    if LIBRARY.resolve() == BUNDLE:
        parser.epilog = "A newer version comes with the package busbar-node or with Ansible."
    else:
        add_bundle_commands(commands)
    commands.add_parser("remove", help="stop the node and delete its files")
    commands.add_parser("start", help="start the launcher and the agent")
    commands.add_parser("stop", help="stop the launcher, the agent and all sessions")
    add_suspension_commands(commands)
    return parser


def add_bundle_commands(commands: argparse._SubParsersAction[Any]) -> None:
    for name, text in (
        ("preflight", "check whether the machine can become a node"),
        ("install", "install and enrol the node"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--options", required=True, help="JSON file, or - for the first line of stdin"
        )
        add_bundle(command)
        command.add_argument(
            "--commit", action="store_true", help="do not wait for the commit on stdin"
        )
    add_join(commands)
    add_bundle(commands.add_parser("upgrade", help="replace the software; sessions continue"))


def add_join(commands: argparse._SubParsersAction[Any]) -> None:
    join = commands.add_parser(
        "join", help="install and enrol the node with a token from standard input"
    )
    join.add_argument(
        "--address",
        action="append",
        required=True,
        help="address at which clients reach the node; may be repeated",
    )
    join.add_argument("--data-port", type=int, default=NodeService.port, help="%(default)s")
    join.add_argument("--software-gpus", type=int, default=0, help="0 uses NVIDIA's driver")
    add_bundle(join)


def add_bundle(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bundle",
        type=Path,
        default=BUNDLE,
        help="folder of the unpacked bundle, the one of this program by default",
    )


def main(argv: list[str] | None = None) -> int:
    arguments = build_parser().parse_args(argv)
    end_with_error_on_signals(arguments.command)
    try:
        run_command(arguments)
    except (NodeError, OSError, subprocess.CalledProcessError) as error:
        send_failure(error)
        return 1
    return 0


def send_failure(error: Exception) -> None:
    text = str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # the connection may be closed
        send_message(error=text)


def run_command(arguments: argparse.Namespace) -> None:
    if arguments.command == "preflight":
        send_message(table=check_machine(read_options(arguments.options)))
    elif arguments.command == "install":
        wait = (lambda: None) if arguments.commit else wait_for_commit_on_stdin
        install(arguments.bundle, read_options(arguments.options), wait)
        send_message(done=True, changed=True)
    elif arguments.command == "join":
        install(arguments.bundle, options_to_join(arguments), lambda: None)
        send_message(done=True, changed=True)
    elif arguments.command == "upgrade":
        send_message(done=True, changed=upgrade(arguments.bundle))
    elif arguments.command == "remove":
        send_message(done=True, changed=remove())
    elif arguments.command == "start":
        start()
    elif arguments.command in SUSPENSION_COMMANDS:
        run_suspension_command(arguments)
    else:
        stop()


def options_to_join(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "token": sys.stdin.readline().strip(),
        "addresses": arguments.address,
        "data_port": arguments.data_port,
        "software_gpus": arguments.software_gpus,
    }


def read_options(source: str) -> dict[str, Any]:
    """Read options from a JSON file, or from the first line of stdin for `-`."""
    text = sys.stdin.buffer.readline().decode() if source == "-" else Path(source).read_text()
    options: dict[str, Any] = json.loads(text)
    return options


if __name__ == "__main__":
    sys.exit(main())
