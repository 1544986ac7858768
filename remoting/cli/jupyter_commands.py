"""The commands `busbar jupyter`: kernels whose programs get GPUs of a pool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from remoting.cli.allocation_request import AllocationRequest, takes_request
from remoting.cli.api import EXIT_CONFLICT, EXIT_USAGE, ApiError
from remoting.cli.interpreter import chosen_python
from remoting.cli.label_options import parse_labels
from remoting.cli.printable import printable

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
SPEC = "kernel.json"
OWN = "busbar"
"""Key of the metadata by which a kernel of ours is known."""
METADATA = """\
import ipykernel_launcher, json
from ipykernel.kernelspec import get_kernel_dict
print(json.dumps(get_kernel_dict().get("metadata", {})))
"""

jupyter_app = typer.Typer(no_args_is_help=True, help="Use GPUs of a pool in Jupyter.")


@jupyter_app.command("install-kernel")
@takes_request
def install_kernel(
    request: AllocationRequest,
    name: Annotated[str, typer.Option(help="Name of the kernel's folder.")] = "busbar",
    display_name: Annotated[
        str, typer.Option("--display-name", help="Name that Jupyter shows.")
    ] = "",
    python: Annotated[
        str,
        typer.Option(help="Python with ipykernel; else that of the environment, or python3."),
    ] = "",
    prefix: Annotated[
        Path | None,
        typer.Option(help="Install below FOLDER/share/jupyter for all users, as with JupyterHub."),
    ] = None,
) -> None:
    """Write a kernel of Jupyter that runs on a share of a GPU: busbar jupyter install-kernel -p 20

    The allocation begins with the kernel and ends with it. A kernel of this name that this command
    has written before is replaced.
    """
    if not NAME.fullmatch(name):
        raise ApiError(f'"{name}" has characters other than A-Z, a-z, 0-9, ., _ and -.', EXIT_USAGE)
    parse_labels(request.label or [])  # refuses one without a value
    options = request.arguments()
    spec = kernel_spec(options, chosen_python(python), display_name or shown_name(options))
    path = write_spec(kernels_folder(prefix) / name, spec)
    typer.echo(printable(f"Kernel written: {path}"))


def kernel_metadata(python: str) -> dict[str, Any]:
    """Return what the ipykernel of a Python says of its kernels. Raises ApiError without ipykernel.

    Jupyter uses the debugger, or encrypts the connection, only if that is there.
    """
    # Not in the present folder, whose modules a kernel in another one does not find.
    done = subprocess.run(
        [python, "-c", METADATA], cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ApiError(
            f"{python} has no ipykernel. Install it: {python} -m pip install ipykernel, or name"
            " another Python with --python. Without pip, make an environment first: python3 -m venv"
            " FOLDER."
        )
    lines = done.stdout.splitlines()  # the environment may print before
    try:
        found: dict[str, Any] = json.loads(lines[-1] if lines else "")
    except ValueError:
        raise ApiError(f"{python} printed no metadata of ipykernel. Is it a Python?") from None
    return found


def shown_name(options: list[str]) -> str:
    return f"Python (GPU {' '.join(options)})" if options else "Python (GPU)"


def kernel_spec(options: list[str], python: str, display_name: str) -> dict[str, Any]:
    """Return the specification. Raises ApiError without `busbar` on PATH, or without ipykernel."""
    busbar = shutil.which("busbar")
    if busbar is None:
        raise ApiError("busbar is not on PATH; a kernel needs the path of its command.")
    program = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    found = {
        "argv": [str(Path(busbar).absolute()), "run", *options, "--", *program],
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {**kernel_metadata(python), OWN: {"request": options}},
    }
    if context := os.environ.get("BUSBAR_CONTEXT"):
        found["env"] = {"BUSBAR_CONTEXT": str(Path(context).absolute())}
    return found


def kernels_folder(prefix: Path | None) -> Path:
    """Return the folder of kernels: below the prefix, or where Jupyter looks for those of a user.

    https://docs.jupyter.org/en/latest/use/jupyter-directories.html
    """
    if prefix is not None:
        return prefix.absolute() / "share" / "jupyter" / "kernels"
    if given := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(given) / "kernels"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "jupyter" / "kernels"


def write_spec(folder: Path, spec: dict[str, Any]) -> Path:
    """Write or replace a kernel of ours. Raises ApiError for one of others."""
    path = folder / SPEC
    if folder.exists() and not is_own(path):
        raise ApiError(f"{folder} is another kernel. Choose a name with --name.", EXIT_CONFLICT)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(spec, indent=1) + "\n")
    fresh.replace(path)
    return path


def is_own(path: Path) -> bool:
    try:
        return OWN in json.loads(path.read_text())["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
