"""The command busbar-node: its commands, what it imports, and its ends without an upgrade."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from nodes import installation, software
from nodes import journal as journals
from nodes.errors import NodeError

INTERRUPTED = """
import signal, sys
from nodes import installation
setattr(installation, sys.argv[1], lambda *_: signal.raise_signal(signal.SIGTERM))
installation.main([sys.argv[1]])
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of a user with modules that are named as those of Python and of the node."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("json", "argparse", "nodes"):
        (folder / f"{name}.py").write_text("raise SystemExit('code of the user was run')\n")
    return folder


def test_command_does_not_run_modules_of_the_current_folder(tmp_path: Path, hostile: Path) -> None:
    command = tmp_path / "busbar-node"
    command.write_text(installation.starter(sys.executable, ROOT))
    done = subprocess.run(
        ["sh", str(command), "--help"], cwd=hostile, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "suspensions" in done.stdout


def commands() -> set[str]:
    help_text = installation.build_parser().format_help()
    return set(re.search(r"\{(.*?)\}", help_text)[1].split(","))  # type: ignore[index]


def test_installed_command_lists_no_command_that_needs_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the folder of the node is a link to another disk."""
    of_bundle = {"preflight", "install", "join", "upgrade"}
    of_package = commands()
    assert of_bundle < of_package
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setattr(installation, "LIBRARY", tmp_path / "link" / "lib")
    monkeypatch.setattr(installation, "BUNDLE", tmp_path.resolve() / "lib")
    assert commands() == of_package - of_bundle


def test_enrolment_does_not_run_modules_of_the_current_folder(
    tmp_path: Path, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(installation, "HOME", home)
    monkeypatch.setattr(installation, "STATE", tmp_path / "state")
    monkeypatch.setattr(installation, "python_environment", lambda: {"PYTHONPATH": str(ROOT)})
    monkeypatch.chdir(hostile)
    with pytest.raises(NodeError, match="token"):
        installation.enrol("no token")


def test_incomplete_installation_is_not_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package is installed on a machine whose enrolment over SSH runs or was interrupted."""
    journal = tmp_path / "journal.json"
    monkeypatch.setattr(journals, "JOURNAL", journal)
    journal.write_text(json.dumps({"made": [str(tmp_path)], "committed": False}))
    monkeypatch.setattr(software, "unpack_beside", pytest.fail)
    assert not installation.upgrade(tmp_path)
    journal.unlink()
    with pytest.raises(NodeError, match="not a node"):
        installation.upgrade(tmp_path)


@pytest.mark.parametrize(
    ("command", "end"), [("upgrade", "The next upgrade completes it."), ("stop", "")]
)
def test_interrupted_command_says_what_becomes_of_it(command: str, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    error = json.loads(done.stdout.removeprefix(installation.LINE_PREFIX))["error"]
    assert error == f"The command {command} was interrupted by SIGTERM. {end}".rstrip()
