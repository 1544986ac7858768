"""Programs of the data plane with a planted defect, which a preprocessor definition selects."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import TypedDict

from deploy.supervisor import BUILD, ROOT

NINJA = ROOT / ".venv" / "bin" / "ninja"


class Entry(TypedDict):
    """Entry of compile_commands.json."""

    command: str
    file: str


def planted_program(folder: Path, program: str, source: str, definition: str) -> Path:
    """Compile a program of the build into the folder; return its path.

    `program` is a path below the build, `source` one below remoting/ that is compiled with the
    definition.
    """
    entry = entry_of(ROOT / "remoting" / source)
    changed, target = folder / "planted.o", folder / Path(program).name
    compiling, linking = shlex.split(entry["command"]), link_command(program)
    original = with_output(compiling, changed)
    subprocess.run([*compiling, f"-D{definition}"], cwd=BUILD, check=True)
    with_output(linking, target)
    others = [w for w in linking if w != original]
    first = next(i for i, w in enumerate(others) if w.endswith((".o", ".a")))
    subprocess.run([*others[:first], str(changed), *others[first:]], cwd=BUILD, check=True)
    folder.chmod(0o755)  # the user of its cage starts it
    return target


def entry_of(source: Path) -> Entry:
    """Return how the source is compiled: by itself or in a group."""
    entries: list[Entry] = json.loads((BUILD / "compile_commands.json").read_text())
    include = f'#include "{source}"\n'
    [found] = [
        entry
        for entry in entries
        if entry["file"] == str(source)
        or ("/Unity/" in entry["file"] and include in Path(entry["file"]).read_text())
    ]
    return found


def with_output(command: list[str], output: Path) -> str:
    """Let a command write another file; return the name of the former one."""
    place = command.index("-o") + 1
    former, command[place] = command[place], str(output)
    return former


def link_command(program: str) -> list[str]:
    """Return the command that links a program."""
    command = subprocess.run(
        [NINJA, "-C", BUILD, "-t", "commands", "-s", program],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return [w for w in shlex.split(command.splitlines()[-1]) if w not in {":", "&&"}]
