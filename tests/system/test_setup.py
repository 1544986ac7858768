"""The commands of the checkout set it up each time; two of them may be started at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "build" / "bundle" / "programs"


def test_two_commands_started_at_once_both_set_up() -> None:
    subprocess.run(
        [ROOT / "test", "--version"], check=True, capture_output=True, timeout=300
    )  # what was edited since then is no part of this
    before = PROGRAMS.stat().st_ino
    commands = [
        subprocess.Popen(
            [ROOT / "test", "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(4)
    ]
    said = [command.communicate(timeout=300)[0] for command in commands]
    assert [command.returncode for command in commands] == [0] * 4, said
    assert PROGRAMS.stat().st_ino == before, (
        "what nodes are given was replaced although nothing changed"
    )
    assert not [p for p in PROGRAMS.parent.iterdir() if p.name not in ("programs", "wheels")]
