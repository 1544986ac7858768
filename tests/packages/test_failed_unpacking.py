"""An installation below a folder that fails leaves that folder as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appliance.installation.script import FOLDER
from deploy.supervisor import wait_for

Start = Callable[[Path, Path], subprocess.Popen[str]]
LOCKS = Path("/proc/locks")
NAMES = ("busbar", "busbar-python", "busbar-smi")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    commands = tmp_path / "content" / "busbar-client" / "bin"
    commands.mkdir(parents=True)
    for name in NAMES:
        (commands / name).write_text("#!/bin/sh\n")
    path = tmp_path / "client.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(commands.parent, "busbar-client")
    return path


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """An archive that an installation waits for while it holds the lock."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def command_of(archive: Path, prefix: Path, version: str = "new") -> list[str]:
    script = str(FOLDER / "unpack.py")
    return [sys.executable, "-I", script, str(archive), str(prefix), version]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(archive: Path, prefix: Path) -> subprocess.Popen[str]:
        # A process in the background may ignore SIGHUP or SIGINT, and so would its children.
        command = ["env", "--default-signal", *command_of(archive, prefix)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def install(archive: Path, prefix: Path, version: str = "new") -> tuple[int, str]:
    command = command_of(archive, prefix, version)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def files(prefix: Path) -> list[str]:
    return sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*"))


def test_folders_that_were_made_are_removed(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(b"")
    status, told = install(tmp_path / "cut", tmp_path / "a" / "b")
    assert status == 1 and "was not installed" in told
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("before", ["lib", "lib/busbar-client", "bin", "lib/other/file"])
def test_folders_that_existed_stay(tmp_path: Path, archive: Path, before: str) -> None:
    prefix = tmp_path / "prefix"
    (prefix / before).mkdir(parents=True)
    (tmp_path / "cut").write_bytes(archive.read_bytes()[:40])
    found = files(prefix)
    assert install(tmp_path / "cut", prefix)[0] == 1
    assert [name for name in files(prefix) if name != "lib/busbar-client/lock"] == found


def test_links_of_a_first_installation_are_removed(tmp_path: Path, archive: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin" / "busbar-smi.new").mkdir(parents=True)
    assert install(archive, prefix)[0] == 1
    assert files(prefix) == ["bin", "bin/busbar-smi.new"]


def test_version_before_stays_complete(tmp_path: Path, archive: Path) -> None:
    prefix = tmp_path / "prefix"
    assert install(archive, prefix, "old") == (0, "")
    (prefix / "bin" / "busbar-smi.new").mkdir()
    assert install(archive, prefix)[0] == 1
    assert all((prefix / "bin" / name).is_file() for name in NAMES)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_installation_that_is_stopped_leaves_nothing(
    start: Start, tmp_path: Path, pipe: Path, number: signal.Signals
) -> None:
    process = start(pipe, tmp_path / "prefix")
    with pipe.open("wb"):
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert told == f"client.sh: The installation was stopped by {number.name}.\n"
    assert not (tmp_path / "prefix").exists()


def test_second_installation_succeeds_after_the_first_one_failed(
    start: Start, tmp_path: Path, archive: Path, pipe: Path
) -> None:
    prefix = tmp_path / "prefix"
    first = start(pipe, prefix)
    with pipe.open("wb"):
        second = start(archive, prefix)
        waits = f"-> FLOCK  ADVISORY  WRITE {second.pid} "
        wait_for("the second one", lambda: waits in LOCKS.read_text(), LOCKS)
        first.terminate()
        assert (first.wait(timeout=60), second.wait(timeout=60)) == (1, 0)
    assert all((prefix / "bin" / name).is_file() for name in NAMES)


def test_folder_below_the_present_one_is_accepted(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert install(archive, Path("here")) == (0, "")
    assert (tmp_path / "here" / "bin" / "busbar").is_file()
