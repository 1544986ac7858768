"""Options of `./run`, and what it says when it cannot do what they ask for."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import check

ROOT = Path(__file__).resolve().parent.parent.parent
STRANGER = 65534


@pytest.fixture
def clone() -> Iterator[Path]:
    """The command of a fresh clone, in a folder that other users can read."""
    with tempfile.TemporaryDirectory(prefix="busbar-clone-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "deploy").mkdir()
        for file in ("run", "deploy/setup.sh"):
            shutil.copy(ROOT / file, folder / file)
        yield folder


def run(clone: Path, *arguments: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "run", *arguments],
        user=user,
        cwd=clone,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("--check", "--port", "9443"), ("--data", "x", "--check")])
def test_check_refuses_other_options(clone: Path, arguments: tuple[str, ...]) -> None:
    done = run(clone, *arguments)
    assert done.returncode == 2 and not done.stdout
    assert f"takes no other options (was: {' '.join(arguments)})" in done.stderr
    assert not (clone / "build").exists()


@pytest.mark.parametrize("arguments", [("--bogus",), ("--port", "9443", "bogus"), ("--por=1",)])
def test_unknown_option_is_named_while_another_run_is_in_progress(
    clone: Path, arguments: tuple[str, ...]
) -> None:
    (clone / "var").mkdir()
    with (clone / "var" / "run.lock").open("w") as lock:
        lock.write("4711 https://127.0.0.1:8443\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run(clone, *arguments)
        assert done.returncode == 2
        assert done.stderr == f"./run has no option {arguments[-1]}. List them with: ./run --help\n"
        for known in (["--port", "9443"], ["--data=var", "--log-format", "json"], ["--data"]):
            assert "already running" in run(clone, *known).stderr


@pytest.mark.parametrize(
    ("option", "value", "most"),
    [
        ("--port", "abc", 65535),
        ("--port", "0", 65535),
        ("--port", "8_443", 65535),
        ("--port", "65536", 65535),
        ("--demo-fleet", "many", 100),
    ],
)
def test_number_that_is_none_is_refused_with_its_range(option: str, value: str, most: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.supervisor", option, value],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"argument {option}: {value} is no number from 1 to {most}" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
@pytest.mark.parametrize("made", ["nothing", "logs", "a data folder"])
def test_checkout_of_another_user_is_refused_with_a_remedy(clone: Path, made: str) -> None:
    if made == "logs":
        (clone / "build" / "log").mkdir(parents=True)
        (clone / "build" / "log" / "setup.lock").touch()
    if made == "a data folder":
        (clone / "var").mkdir()
        (clone / "var" / "run.lock").write_text("4711 https://127.0.0.1:8443\n")
        (clone / "var" / "run.lock").chmod(0o600)
    done = run(clone, user=STRANGER)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"cannot write to the checkout {clone}, which belongs to root" in done.stderr
    assert f"chown -R {pwd.getpwuid(STRANGER).pw_name} '{clone}'" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
@pytest.mark.parametrize("hidden", ["the folder", "the lock"])
def test_data_folder_of_another_user_is_refused_before_set_up(clone: Path, hidden: str) -> None:
    """The instance of the other user may run with the programs that set-up replaces."""
    clone.chmod(0o777)
    lock = clone / "var" / "run.lock"
    lock.parent.mkdir(mode=0o700 if hidden == "the folder" else 0o755)
    lock.write_text("4711 https://127.0.0.1:8443\n")
    lock.chmod(0o600)
    done = run(clone, user=STRANGER)
    assert done.returncode == 1 and f"cannot read the data folder {lock.parent}" in done.stderr
    assert not (clone / "build").exists()


def test_interrupted_check_prints_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stopped: list[bool] = []

    class Stack:
        def __init__(self, data: Path, base_port: int) -> None:
            self.folder = data.parent

        def stop(self) -> None:
            stopped.append(self.folder.exists())

    def interrupted(self: check.Check) -> bool:
        self.steps["setup"] = {"ok": True}
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "Stack", Stack)
    monkeypatch.setattr(check.Check, "run", interrupted)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        check.main()
    printed = capsys.readouterr()
    assert stopped == [True] and printed.out == "" and "interrupted" in printed.err
    assert list(tmp_path.iterdir()) == []


def test_check_whose_stack_does_not_stop_prints_folder_and_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Unstoppable:
        def __init__(self, folder: Path, base_port: int) -> None:
            pass

        def stop(self) -> None:
            raise RuntimeError("the launcher does not end")

    monkeypatch.setattr(check, "Stack", Unstoppable)
    monkeypatch.setattr(check.Check, "run", lambda _: True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert check.main() == 1
    printed = capsys.readouterr()
    (folder,) = tmp_path.iterdir()
    assert f"files of the failed check are in {folder}" in printed.err
    assert "does not end" in json.loads(printed.out)["stopped"]["error"]
