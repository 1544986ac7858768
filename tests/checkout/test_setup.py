"""Set-up of this checkout by its commands, and of small copies of it with faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from deploy.supervisor import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "build" / "bundle" / "programs"
COMMANDS = ("run", "test", "bench")
OLD_PYTHON = """#!/bin/sh
case "$*" in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The commands of a fresh clone, without anything that set-up makes."""
    folder = tmp_path / "clone"
    (folder / "deploy").mkdir(parents=True)
    for name in (*COMMANDS, "deploy/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def programs(folder: Path, *names: str, **scripts: str) -> dict[str, str]:
    """Return an environment whose PATH has only the named programs and these scripts."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


def call(
    clone: Path, function: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a function of setup.sh in a clone."""
    script = f'ROOT={clone}; . "$ROOT/deploy/setup.sh"; LOGS={clone}; {function}'
    return subprocess.run(
        ["/bin/sh", "-eu", "-c", script],
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_set_up(clone: Path, tmp_path: Path, command: str) -> None:
    done = subprocess.run(
        [clone / command, "--help"],
        env=programs(tmp_path / "bin", "sh", "dirname", "readlink", "cat"),
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout.startswith(f"Usage: ./{command}") and not done.stderr
    assert sorted(p.name for p in clone.iterdir()) == sorted(["deploy", *COMMANDS])


@pytest.mark.parametrize("command", COMMANDS)
def test_copied_command_reports_missing_checkout(tmp_path: Path, command: str) -> None:
    shutil.copy(ROOT / command, tmp_path)
    arguments = ["remoting"] if command == "bench" else []
    done = subprocess.run(
        [tmp_path / command, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"{tmp_path} is not a checkout of Busbar" in done.stderr
    assert "cd CHECKOUT" in done.stderr


def test_linked_command_finds_its_checkout(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(clone / "run")
    done = subprocess.run([tmp_path / "run", "--help"], capture_output=True, text=True, check=True)
    assert "--check" in done.stdout


def test_unknown_long_suite_and_benchmark_are_rejected(clone: Path) -> None:
    for command in (["test", "--long", "nope"], ["bench", "nope"]):
        done = subprocess.run(
            [clone / command[0], *command[1:]], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and "(was: nope)" in done.stderr
    assert not (clone / ".venv").exists()


def test_old_python_is_reported_with_its_version(clone: Path, tmp_path: Path) -> None:
    env = programs(tmp_path / "bin", "grep", "rm", python3=OLD_PYTHON)
    done = call(clone, "make_venv", env)
    assert done.returncode == 1
    assert "Python 3.11 or later is required; this machine has Python 3.9.2" in done.stderr
    assert "apt-get install" in done.stderr


def test_missing_packages_are_named_with_the_command_that_installs_them(
    clone: Path, tmp_path: Path
) -> None:
    user = "#!/bin/sh\necho 1000\n"
    env = programs(tmp_path / "bin", "grep", "python3", id=user)
    done = call(clone, "install_packages", env)
    assert done.returncode == 1
    assert "Install them as root with:  apt-get install -y g++" in done.stderr


def test_unfinished_environment_is_made_again(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (clone / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    done = call(clone, "make_venv && venv_is_usable")
    assert done.returncode == 0, done.stderr
    assert "creating the virtual environment" in done.stderr


def test_environment_of_a_moved_checkout_is_made_again(clone: Path, tmp_path: Path) -> None:
    assert call(clone, "make_venv && venv_is_usable").returncode == 0
    moved = clone.rename(tmp_path / "moved")
    assert call(moved, "venv_is_usable").returncode == 1
    done = call(moved, "make_venv && venv_is_usable")
    assert done.returncode == 0, done.stderr
    assert str(moved) in (moved / ".venv" / "bin" / "pip").read_text().splitlines()[0]


def test_build_of_a_moved_checkout_is_configured_again(clone: Path, tmp_path: Path) -> None:
    build = clone / "build" / "remoting"
    build.mkdir(parents=True)
    (build / "cuda.h").touch()
    (build / "build.ninja").touch()
    (build / "CMakeCache.txt").write_text(
        f"CMAKE_HOME_DIRECTORY:INTERNAL={clone}/remoting\n"
        f"CMAKE_CACHEFILE_DIR:INTERNAL={build}\n"
        f"CUDA_INCLUDE:PATH={build}\n"
    )
    assert call(clone, 'build_is_configured "$ROOT/build/remoting"').returncode == 0
    moved = clone.rename(tmp_path / "moved")
    assert call(moved, 'build_is_configured "$ROOT/build/remoting"').returncode == 1


def test_step_runs_again_when_content_changes_and_not_when_only_times_change(clone: Path) -> None:
    source = clone / "source.py"
    source.write_text("1")
    step = (
        "inputs=$(fingerprint . -name stamp -prune -o); "
        'unchanged "$ROOT/stamp" "$inputs" || { echo step; record "$ROOT/stamp" "$inputs"; }'
    )
    assert call(clone, step).stdout == "step\n"
    os.utime(source, (1, 1))
    assert call(clone, step).stdout == ""
    source.write_text("2")
    assert call(clone, step).stdout == "step\n"
    source.unlink()
    assert call(clone, step).stdout == "step\n"


def test_failed_step_shows_errors_and_the_name_of_its_log(clone: Path) -> None:
    (clone / "a.log").write_text("line 1\nfatal error: no such header\n")
    done = call(clone, 'fail_with_log "The data plane could not be built." "$ROOT/a.log"')
    assert done.returncode == 1
    assert "fatal error: no such header" in done.stderr and f"{clone}/a.log" in done.stderr


def test_second_set_up_waits_for_the_first(clone: Path) -> None:
    steps = (
        "make_venv() { touch $ROOT/begun; while [ ! -e $ROOT/go ]; do sleep 0.1; done; };"
        "install_packages() { :; }; install_build_packages() { :; }; install_groups() { :; };"
        "build_remoting() { echo build >>$ROOT/order; sleep 0.2; echo built >>$ROOT/order; };"
        "build_bundle() { :; }; build_console() { :; }; build_site() { :; }; build_client() { :; };"
        "write_command() { :; };"
    )
    script = f'ROOT={clone}; . "$ROOT/deploy/setup.sh"; {steps} setup'
    command = ["/bin/sh", "-eu", "-c", script]
    with subprocess.Popen(command) as first:
        wait_for("the first", (clone / "begun").exists, clone)
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert "another command is setting up this checkout" in second.stderr.readline()
            (clone / "go").touch()
    assert (first.returncode, second.returncode) == (0, 0)
    assert (clone / "order").read_text().split() == ["build", "built"] * 2


@pytest.mark.long
def test_commands_started_at_once_leave_the_bundle_as_it_is() -> None:
    command = [str(ROOT / "test"), "--version"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    before = PROGRAMS.stat().st_ino
    commands = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(4)
    ]
    output = [command.communicate(timeout=300)[0] for command in commands]
    assert [command.returncode for command in commands] == [0] * 4, output
    assert PROGRAMS.stat().st_ino == before, "the bundle was replaced although nothing changed"
    assert not [p for p in PROGRAMS.parent.iterdir() if p.name not in ("programs", "wheels")]


@pytest.mark.long
def test_set_up_with_nothing_to_do_takes_less_than_a_second() -> None:
    command = [str(ROOT / "test"), "--version"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    script = "ROOT=$PWD FOR_TESTS=1; . deploy/setup.sh; setup demo"
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
        )
        seconds.append(time.monotonic() - started)
        assert done.stderr == ""
    assert min(seconds) < 1


@pytest.mark.parametrize(
    ("command", "arguments", "output"),
    [
        ("busbar", ("--help",), "Usage: busbar [OPTIONS] COMMAND"),
        ("busbar-smi", ("--help",), "Usage: busbar smi [OPTIONS]"),
        ("busbar-python", ("-c", "print('from', 'Python')"), "from Python\n"),
    ],
)
def test_checkout_has_the_commands_of_an_installed_client(
    clone: Path, command: str, arguments: tuple[str, ...], output: str
) -> None:
    call(clone, "write_commands")
    for name in (".venv", "busbar_client", "nodes", "remoting"):
        (clone / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [clone / "build" / "bin" / command, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert output in done.stdout
