"""A second `./run` with the data folder of a running one ends at once and changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.ports import recorded_ports
from deploy.supervisor import runtime_folder, wait_for
from tests.ports import port

ROOT = Path(__file__).resolve().parent.parent.parent
SUPERVISED = ("appliance", "spawner", "launcher", "agent")


def command(data: Path) -> list[str]:
    return [sys.executable, "-m", "deploy.supervisor", "--data", str(data), "--port", str(port(30))]


@dataclass(frozen=True)
class State:
    """Facts that a second start must not change."""

    alive: dict[str, bool]
    """Name and pid of each supervised process to whether it lives."""
    runtime: list[tuple[str, int]]
    """Names and inodes in the runtime folder of the node."""
    lock: str


@dataclass
class Running:
    process: subprocess.Popen[str]
    data: Path
    url: str

    def is_complete(self) -> bool:
        """Return whether all processes and the launcher's socket are there."""
        try:
            state = self.state()
        except (OSError, ValueError):  # files that the start writes or replaces at this moment
            return False
        return len(state.alive) == len(SUPERVISED) and "agent.sock" in dict(state.runtime)

    def state(self) -> State:
        runtime = runtime_folder(self.data / "node")
        pids = json.loads((self.data / "pids.json").read_text())
        return State(
            alive={f"{name} {pid}": Path(f"/proc/{pid}").exists() for name, pid in pids.items()},
            runtime=sorted((p.name, p.stat().st_ino) for p in runtime.iterdir()),
            lock=(self.data / "run.lock").read_text(),
        )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    data = tmp_path / "data"
    process = subprocess.Popen(command(data), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        banner = process.stdout.readline()
        found = re.search(r"https://\S+", banner)
        assert found, banner
        started = Running(process, data, found[0])
        wait_for("the launcher", started.is_complete, data / "log" / "appliance.log")
        yield started
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_second_run_names_the_first_and_changes_nothing(running: Running) -> None:
    before = running.state()
    second = subprocess.run(
        command(running.data), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert second.returncode == 1 and not second.stdout
    recorded = recorded_ports(running.data)
    assert recorded is not None and running.url.endswith(f":{recorded.https}")
    expected = f"already running: pid {running.process.pid}, {running.url}"
    assert expected in second.stderr and len(second.stderr.splitlines()) == 1
    after = running.state()
    assert after.alive == before.alive and all(after.alive.values())
    assert after.lock == before.lock
    assert set(before.runtime) <= set(after.runtime)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The command of a fresh clone, without anything that set-up makes."""
    folder = tmp_path / "a clone"
    (folder / "deploy").mkdir(parents=True)
    for name in ("run", "deploy/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ./run, which cannot set up: PATH has no programs but these."""
    programs = clone / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("sh", "dirname", "readlink", "flock", "true", "mkdir", "id"):
        if not (programs / name).exists():
            (programs / name).symlink_to(str(shutil.which(name)))
    return subprocess.run(
        [clone / "run", *arguments],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=clone,
    )


@pytest.mark.parametrize("form", ["default", "--data PATH", "--data=PATH"])
def test_second_run_is_refused_before_set_up(clone: Path, form: str) -> None:
    data = clone / "var" if form == "default" else clone / "other data"
    data.mkdir()
    arguments = {"default": [], "--data PATH": ["--data", str(data)]}
    lock = (data / "run.lock").open("w")
    lock.write("4711 https://127.0.0.1:8443\n")
    lock.flush()
    fcntl.flock(lock, fcntl.LOCK_EX)
    done = run(clone, *arguments.get(form, [f"--data={data}"]))
    assert done.returncode == 1
    assert "already running: pid 4711, https://127.0.0.1:8443" in done.stderr
    assert not (clone / "build").exists() and os.listdir(data) == ["run.lock"]


def test_lock_file_of_an_ended_run_is_no_obstacle(clone: Path) -> None:
    (clone / "var").mkdir()
    (clone / "var" / "run.lock").write_text("4711 https://127.0.0.1:8443\n")
    assert "already running" not in run(clone).stderr


def test_runtime_folder_whose_path_is_too_long_for_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("long" * 20)))
    with pytest.raises(SystemExit, match="Set TMPDIR to a shorter one"):
        runtime_folder(tmp_path)
