"""Entry points of an installed client. Packages contain this file as `busbar_client/command.py`.

The command's own packages lie in a folder that only its process imports from: they conflict with
no package of the programs that it starts.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Run `busbar`."""
    sys.path.insert(0, str(Path(__file__).resolve().with_name("private")))
    from remoting.cli.main import main as run_command_line

    run_command_line()


def python() -> None:
    """Run `busbar-python`."""
    sys.path.insert(0, str(Path(__file__).resolve().with_name("private")))
    from remoting.cli.interpreter import main as run_interpreter

    run_interpreter()


def smi() -> None:
    """Run `busbar-smi`, which is `busbar smi`."""
    sys.argv.insert(1, "smi")
    main()
