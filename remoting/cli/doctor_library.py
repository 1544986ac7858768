"""Check of `busbar doctor` which libcuda.so.1 programs load."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from remoting.cli import run_command
from remoting.cli.doctor_finding import FAILED, OK, WARNING, Finding
from remoting.cli.ticket_file import TICKET_NAME

PROBE = Path(__file__).with_name("gpu_probe.py")
LIBRARY = "libcuda.so.1"
LOAD_SECONDS = 20.0
SHELLS = ("bash", "dash", "fish", "sh", "zsh")
INSTALL_AGAIN = "Install the client again, with the line that `busbar install-line` prints."
OLD_SYSTEM = re.compile(r"GLIBC|musl|Error loading|Error relocating")
KEEP_THE_LIBRARY = (
    run_command.HOW_TO_KEEP_THE_LIBRARY[:1].upper() + run_command.HOW_TO_KEEP_THE_LIBRARY[1:] + "."
)
REMOVE_OR_MOVE = "Remove {} from LD_LIBRARY_PATH, or name it behind {}."


def command_of(mode: str) -> list[str]:
    return [sys.executable, "-I", str(PROBE), mode]


def run_probe(
    command: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
    descriptors: Sequence[int] = (),
) -> dict[str, Any]:
    """Run the probe and return what it prints. `error` says why a program has no GPU.

    It has no terminal, so a shell around it cannot take this one. `is_silent` is true if it printed
    nothing of its own.
    """
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            pass_fds=descriptors,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return silent(f"it did not end within {seconds:.0f} s")
    except OSError as error:
        return silent(f"{command[0]} cannot be started: {error.strerror}")
    errors = done.stderr.decode(errors="replace")
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        found = None
    if not isinstance(found, dict):
        return silent(last_line(errors) or f"it ended with the exit code {done.returncode}")
    if "error" in found and (told := told_by_library(errors)):
        found["error"] = told
    return found


def silent(error: str) -> dict[str, Any]:
    return {"error": error, "is_silent": True}


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def told_by_library(errors: str) -> str:
    """Return the last sentence of the client library on standard error, or an empty text."""
    lines = [line for line in errors.splitlines() if line.startswith("busbar: ")]
    return lines[-1].removeprefix("busbar: ") if lines else ""


def library_findings() -> Iterator[Finding]:
    """Yield whether programs load the client library, also those that a shell starts."""
    if lacks_environment():
        text = "This process is inside of `busbar run`, without the environment of its programs."
        yield Finding("library", FAILED, text, KEEP_THE_LIBRARY)
        return
    library = run_command.client_library_folder() / LIBRARY
    if not library.exists():
        yield Finding("library", FAILED, f"{library} does not exist.", fix_of_absent_library())
        return
    environment = program_environment()
    found = run_probe(command_of("load"), environment, LOAD_SECONDS)
    if is_library(found, library):
        yield Finding("library", OK, f"Programs under busbar run load {library}.{own_driver()}")
        yield from shell_findings(environment, library)
    else:
        text = described(found)
        yield Finding("library", FAILED, f"A program {text}.", fix_of_library(found, library))


def fix_of_absent_library() -> str:
    if "BUSBAR_CLIENT_LIBRARY" in os.environ:
        return "Unset BUSBAR_CLIENT_LIBRARY, or set it to the folder of the client library."
    return INSTALL_AGAIN


def lacks_environment() -> bool:
    """Return whether `busbar run` has started this process, and its variables were removed since.

    The descriptor of the ticket is left then, unless sudo, a service or Python's subprocess has
    closed it.
    """
    return not is_inside() and any(map(is_ticket, Path("/proc/self/fd").iterdir()))


def is_ticket(descriptor: Path) -> bool:
    try:
        return os.readlink(descriptor).startswith(f"/memfd:{TICKET_NAME}")
    except OSError:  # that of the listing is closed
        return False


def is_inside() -> bool:
    """Return whether `busbar run` has started this process."""
    return bool(os.environ.get("BUSBAR_TICKET_FILE"))


def program_environment() -> dict[str, str]:
    """Return the environment of a program: the present one inside of `busbar run`."""
    return dict(os.environ) if is_inside() else run_command.environment("", software=False)


def is_library(found: Mapping[str, Any], library: Path) -> bool:
    try:
        return os.path.samefile(found.get("library", ""), library)
    except OSError:
        return False


def described(found: Mapping[str, Any]) -> str:
    if "library" in found:
        return f"loads {found['library']}, which is not the client library"
    return f"cannot load {LIBRARY}: {found['error']}"


def fix_of_library(found: Mapping[str, Any], library: Path) -> str:
    error = found.get("error", "")
    if "failed to map segment" in error:
        return (
            f"{library.parent} is on a file system that is mounted noexec: install the client on"
            " another one, with --prefix FOLDER."
        )
    if OLD_SYSTEM.search(error):
        return "Use a container or machine with Debian 12, Ubuntu 22.04 or newer."
    if fix := fix_of_search_path(found, library):
        return fix
    if os.environ.get("LD_PRELOAD") and "library" in found:
        return f"Unset LD_PRELOAD ({os.environ['LD_PRELOAD']}), or remove {LIBRARY} from it."
    return KEEP_THE_LIBRARY if is_inside() else INSTALL_AGAIN


def fix_of_search_path(found: Mapping[str, Any], library: Path) -> str:
    """Return what to do about LD_LIBRARY_PATH; empty if the client library comes first in it.

    Outside of `busbar run` nothing is to do: its programs find the client library before.
    """
    if not is_inside():
        return ""
    folders = [Path(f) for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
    if library.parent not in folders:
        return KEEP_THE_LIBRARY
    before = folders[: folders.index(library.parent)]
    hiding = (folder for folder in before if is_library(found, folder / LIBRARY))
    return next((REMOVE_OR_MOVE.format(f, library.parent) for f in hiding), "")


def own_driver() -> str:
    """Return a sentence about NVIDIA's driver of this machine; empty if there is none."""
    if is_inside():
        return ""
    found = run_probe(command_of("load"), os.environ, LOAD_SECONDS)
    if "library" not in found:
        return ""
    return f" Others load {found['library']} of this machine."


def shell_findings(environment: Mapping[str, str], library: Path) -> Iterator[Finding]:
    """Yield a warning if the startup files of the user's shell hide the client library.

    Files that need a terminal may end the shell before it starts a program.
    """
    shell = os.environ.get("SHELL", "")
    if Path(shell).name not in SHELLS:
        return
    command = [shell, "-ic", shlex.join(command_of("load"))]
    found = run_probe(command, environment, LOAD_SECONDS)
    if is_library(found, library) or found.get("is_silent"):
        return
    text = f"A program that {shell} starts {described(found)}."
    fix = (
        "Look in the startup files of the shell for a line that replaces LD_LIBRARY_PATH, and keep"
        " the old value, as in LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH"
    )
    yield Finding("library", WARNING, text, fix)
