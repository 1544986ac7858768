"""Runs modules of the collection in this process: a process for each takes half a second."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RunModule = Callable[..., dict[str, Any]]
"""Takes the name of a module, `check` for check mode, and options. Returns the JSON result."""


def load_plugin(collections: Path, name: str) -> Any:
    """Return the Python module of a plugin such as `modules.user`."""
    if str(collections) not in sys.path:
        sys.path.insert(0, str(collections))
    return importlib.import_module(f"ansible_collections.busbar.pool.plugins.{name}")


def module_runner(collections: Path, connection: dict[str, str]) -> RunModule:
    """Return a function that runs modules below `collections` with the options `connection`."""
    testing = importlib.import_module("ansible.module_utils.testing")

    def run(module: str, *, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = connection | options | {"_ansible_check_mode": check, "_ansible_diff": True}
        output = io.StringIO()
        with (
            testing.patch_module_args(arguments),
            contextlib.redirect_stdout(output),
            contextlib.suppress(SystemExit),
        ):
            load_plugin(collections, f"modules.{module}").main()
        result: dict[str, Any] = json.loads(output.getvalue())
        return result

    return run
