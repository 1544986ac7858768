"""The check of the structure of the C++ sources reports planted inclusions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.supervisor import ROOT

CHECK = ROOT / ".ci" / "checks" / "cpp-structure.py"
SOUND = {
    "checked_size.h": "",
    "wire/format.h": '#include "checked_size.h"\n',
    "server/link.h": '#include "wire/format.h"\n#include <vector>\n',
    "server/link.cc": '#include "server/link.h"\n',
}


def check(root: Path, sources: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit status and the output of the check."""
    for name, text in sources.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    done = subprocess.run(
        [sys.executable, str(CHECK), str(root)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.strip()


def test_inclusions_of_lower_folders_pass(tmp_path: Path) -> None:
    assert check(tmp_path, SOUND) == (0, "")


@pytest.mark.parametrize(
    ("file", "included"),
    [
        ("wire/up.cc", "server/link.h"),
        ("client/beside.cc", "server/link.h"),
        ("root.cc", "wire/format.h"),
    ],
)
def test_folder_that_includes_one_that_is_not_below_is_reported(
    tmp_path: Path, file: str, included: str
) -> None:
    status, output = check(tmp_path, {**SOUND, file: f'#include "{included}"\n'})
    folders = f"{Path(file).parent} is not above {Path(included).parent}"
    assert (status, output) == (1, f"{file} includes {included}: {folders}")


def test_folder_without_a_layer_is_reported(tmp_path: Path) -> None:
    status, output = check(tmp_path, {**SOUND, "attic/box.h": ""})
    assert (status, output) == (1, "attic: name its layer in LAYERS of cpp-structure.py")


def test_circle_of_components_is_reported(tmp_path: Path) -> None:
    circle = {
        "wire/a.h": '#include "wire/b.h"\n',
        "wire/b.cc": '#include "wire/a.h"\n',
        "wire/b.h": "",
    }
    status, output = check(tmp_path, {**SOUND, **circle})
    assert (status, output) == (1, "include circle: wire/a, wire/b")
