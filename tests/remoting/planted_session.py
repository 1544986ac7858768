"""Session servers with a planted defect, which a definition of the preprocessor selects."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from deploy.supervisor import BUILD, ROOT

SOURCES = ROOT / "remoting" / "server"
OBJECTS = BUILD / "CMakeFiles"


def session_without_module_charges(folder: Path) -> Path:
    """Compile a session server that does not charge the memory of modules; return its path."""
    return planted_session(folder, "module", "BUSBAR_PLANTED_UNCHARGED")


def planted_session(folder: Path, source: str, definition: str) -> Path:
    """Compile the program into the folder from the objects of the build; return its path.

    `source` is compiled with the definition.
    """
    target, changed = folder / "busbar-session", folder / f"{source}.o"
    path = SOURCES / f"{source}.cc"
    entry = subprocess.run(
        [ROOT / ".venv" / "bin" / "ninja", "-C", BUILD, "-t", "commands", "-s", object_of(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    words = shlex.split(entry.splitlines()[-1])
    words[words.index("-o") + 1] = str(changed)
    subprocess.run([*words, f"-D{definition}"], cwd=BUILD, check=True)
    objects = [
        str(o)
        for o in (OBJECTS / "busbar_server.dir" / "server").rglob("*.o")
        if o.name != f"{source}.cc.o"
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
