"""Commands of Ansible, and the environment in which they find the collection."""

from __future__ import annotations

import os
import sys
from pathlib import Path

BIN = Path(sys.executable).parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    return (
        os.environ
        | {
            "ANSIBLE_COLLECTIONS_PATH": str(folder),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_PIPELINING": "1",
            "LC_ALL": "C.UTF-8",
        }
        | more
    )
