"""A session server with a planted defect: it does not charge the memory of modules."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from deploy.supervisor import BUILD, ROOT

SOURCE = ROOT / "remoting" / "server" / "module.cc"
OBJECTS = BUILD / "CMakeFiles"


def session_without_module_charges(folder: Path) -> Path:
    """Compile the program into the folder from the objects of the build; return its path."""
    target, changed = folder / "busbar-session", folder / "module.o"
    entry = subprocess.run(
        [ROOT / ".venv" / "bin" / "ninja", "-C", BUILD, "-t", "commands", "-s", object_of(SOURCE)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    words = shlex.split(entry.splitlines()[-1])
    words[words.index("-o") + 1] = str(changed)
    subprocess.run([*words, "-DBUSBAR_PLANTED_UNCHARGED"], cwd=BUILD, check=True)
    objects = [
        str(o)
        for o in (OBJECTS / "busbar_server.dir" / "server").rglob("*.o")
        if o.name != "module.cc.o"
    ]
    main = str(OBJECTS / "busbar-session.dir" / "server" / "main.cc.o")
    libraries = [str(BUILD / f"lib{name}.a") for name in ("busbar_transport", "busbar_images")]
    system = ["-lssl", "-lcrypto", "-ldl", "-lpthread"]
    subprocess.run(
        ["g++", "-o", target, main, str(changed), *objects, *libraries, *system], check=True
    )
    folder.chmod(0o755)  # the user of its cage starts it
    return target


def object_of(source: Path) -> str:
    return f"CMakeFiles/busbar_server.dir/server/{source.name}.o"
