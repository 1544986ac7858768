"""`busbar run`: signals, exit codes, the program's environment, and what a kill leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import EVENT_SECONDS
from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.system

BUSBAR = str(ROOT / "build" / "bin" / "busbar")
OUR_VARIABLES = {
    "BUSBAR_TICKET_FILE",
    "CUPY_COMPILE_WITH_PTX",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
}
AS_JUPYTER = "JPY_PARENT_PID=$$ setsid"
REPORT_SIGNALS = """
import os, signal, sys
def report(number, _):
    print(number, flush=True)
for number in map(int, sys.argv[1:]):
    signal.signal(number, report)
print("ready", flush=True)
while True:
    signal.pause()
"""
PASSED_ON = (
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGRTMIN,
    signal.SIGRTMAX,
)


@pytest.fixture
def settled(pool: Pool) -> Iterator[Pool]:
    yield pool
    pool.settle()


def next_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def start_reporter(pool: Pool, *signals: int) -> subprocess.Popen[str]:
    """Start a program that prints the number of each of these signals that it receives."""
    program = pool.start(5, sys.executable, "-c", REPORT_SIGNALS, *(str(int(s)) for s in signals))
    assert next_line(program) == "ready", program.communicate()[1]
    return program


def test_every_signal_reaches_the_program(settled: Pool) -> None:
    program = start_reporter(settled, *PASSED_ON)
    for number in PASSED_ON:
        program.send_signal(number)
        assert next_line(program) == str(int(number))
    program.send_signal(signal.SIGTERM)
    assert program.wait(EVENT_SECONDS) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGKILL, signal.SIGSEGV])
def test_a_program_that_a_signal_ends_has_the_exit_code_of_a_shell(
    settled: Pool, number: signal.Signals
) -> None:
    program = settled.start(5, "sh", "-c", f"kill -{int(number)} $$")
    assert settled.finish(program)[0] == 128 + number


def test_a_signal_in_the_queue_ends_the_command_and_the_allocation(settled: Pool) -> None:
    whole = [settled.start(100, "sh", "-c", "echo started; exec sleep 600") for _ in range(2)]
    assert [next_line(program) for program in whole] == ["started"] * 2
    queued = settled.start(100, "true")
    settled.wait("the queue", lambda: bool(settled.api.items("allocations", state="queued")))
    queued.send_signal(signal.SIGTERM)
    assert queued.wait(EVENT_SECONDS) == 128 + signal.SIGTERM
    assert not settled.api.items("allocations", state="queued")


@pytest.mark.parametrize(("kept", "is_told"), [("", True), (":$LD_LIBRARY_PATH", False)])
def test_program_that_loses_the_client_library_is_told_how_to_keep_it(
    settled: Pool, kept: str, is_told: bool
) -> None:
    script = f'LD_LIBRARY_PATH=/opt/solver/lib{kept} exec "$0" add'
    code, _, err = settled.finish(settled.start(5, "sh", "-c", script, DEMO))
    assert (code != 0) == is_told
    assert ("found no GPU, look for a script that replaces LD_LIBRARY_PATH" in err) == is_told, err


@pytest.mark.parametrize(
    ("program", "notice"),
    [
        ("pass", "the program did not use its GPU. If it should"),
        ("import absent_module", "the program failed, and had not used its GPU. If it failed"),
    ],
)
def test_notice_about_an_unused_gpu_is_true(settled: Pool, program: str, notice: str) -> None:
    _, _, err = settled.finish(settled.start(5, sys.executable, "-c", program))
    assert notice in err


def test_program_that_fails_because_its_allocation_had_ended_is_told_so(
    settled: Pool, tmp_path: Path
) -> None:
    script = 'echo started; until [ -e "$1" ]; do sleep 0.1; done; exec "$0" add'
    program = settled.start(5, "sh", "-c", script, DEMO, str(tmp_path / "go"))
    assert next_line(program) == "started"
    path = f"allocations/{settled.api.items('allocations', state='active')[0]['id']}"
    program.send_signal(signal.SIGSTOP)
    with settled.short_lease():
        settled.wait("the end", lambda: settled.api.request("GET", path)["state"] == "released")
    (tmp_path / "go").touch()
    node = settled.api.items("nodes")[0]["name"]
    assert program.stderr is not None and f"busbar: node {node}: " in program.stderr.readline()
    program.send_signal(signal.SIGCONT)
    code, _, err = settled.finish(program)
    assert code == 1 and "no session and no heartbeat" in err, err


def test_a_killed_command_leaves_no_key_behind(settled: Pool, tmp_path: Path) -> None:
    script = 'trap "exit 9" TERM; head -c 4 "$BUSBAR_TICKET_FILE"; echo; echo $BUSBAR_TICKET_FILE; '
    endless = script + "while :; do sleep 0.1; done"
    program = settled.start(5, "sh", "-c", endless, TMPDIR=str(tmp_path))
    assert next_line(program) == "sum"
    ticket_file = Path(next_line(program))
    assert ticket_file.exists()
    program.kill()
    program.wait(EVENT_SECONDS)
    assert not ticket_file.exists()
    assert os.listdir(tmp_path) == []
    assert program.stdout is not None
    assert program.stdout.read() == ""  # the end of the pipe: the program has ended as well


def test_the_end_of_the_allocation_ends_the_program(settled: Pool) -> None:
    program = settled.start(5, "sh", "-c", "echo started; exec sleep 600")
    assert next_line(program) == "started"
    allocation = settled.api.items("allocations", state="active")[0]["id"]
    settled.api.request("DELETE", f"allocations/{allocation}")
    code, _, errors = settled.finish(program)
    assert code == 128 + signal.SIGTERM
    assert "busbar: " in errors


@contextmanager
def started_by_shell(
    pool: Pool, before: str, percent: int, *command: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start `busbar run` from a shell that waits for it. `before` precedes the command there.

    Yields the shell, which shows what both print, and a descriptor of the command's process.
    """
    run = (BUSBAR, "run", "-p", str(percent), "--", *command)
    shell = subprocess.Popen(
        ["sh", "-c", f'{before} "$@" & echo $!; wait', "sh", *run],
        env=os.environ | {"BUSBAR_CONTEXT": str(pool.context)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    process = os.pidfd_open(int(next_line(shell)))
    try:
        yield shell, process
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)
        shell.kill()
        shell.wait()


def test_program_ends_with_the_jupyter_server_that_has_started_it(settled: Pool) -> None:
    program = (sys.executable, "-c", REPORT_SIGNALS)
    with started_by_shell(settled, AS_JUPYTER, 5, *program) as (server, _):
        assert next_line(server) == "ready"
        server.kill()
        printed = server.communicate(timeout=EVENT_SECONDS)[0]  # its end: no process holds it
    assert printed == "busbar: The Jupyter server has ended.\n"


def test_queued_request_ends_with_the_jupyter_server_that_has_started_it(settled: Pool) -> None:
    whole = [settled.start(100, "sh", "-c", "echo started; exec sleep 600") for _ in range(2)]
    assert [next_line(program) for program in whole] == ["started"] * 2
    with started_by_shell(settled, AS_JUPYTER, 100, "true") as (server, _):
        settled.wait("the queue", lambda: bool(settled.api.items("allocations", state="queued")))
        server.kill()
        printed = server.communicate(timeout=EVENT_SECONDS)[0]
    assert printed.endswith("busbar: The Jupyter server has ended.\n")
    assert not settled.api.items("allocations", state="queued")


@pytest.mark.parametrize(
    "before",
    ["setsid", f"JPY_PARENT_PID={os.getpid()} setsid", "JPY_PARENT_PID=$$"],
    ids=["no server", "another process", "no kernel"],
)
def test_program_outlives_a_parent_that_is_no_jupyter_server(settled: Pool, before: str) -> None:
    signals = (signal.SIGUSR1, signal.SIGUSR2)
    program = (sys.executable, "-c", REPORT_SIGNALS, *(str(int(s)) for s in signals))
    with started_by_shell(settled, before, 5, *program) as (parent, run):
        assert next_line(parent) == "ready"
        parent.kill()
        parent.wait(EVENT_SECONDS)
        for number in signals:  # behind the first one, the command has looked for its parent
            signal.pidfd_send_signal(run, number)
            assert next_line(parent) == str(int(number))


@pytest.mark.long
def test_a_program_that_ignores_the_end_of_its_allocation_is_killed(settled: Pool) -> None:
    ignores = "trap '' TERM; echo started; while :; do sleep 1; done"
    program = settled.start(5, "sh", "-c", ignores)
    assert next_line(program) == "started"
    allocation = settled.api.items("allocations", state="active")[0]["id"]
    settled.api.request("DELETE", f"allocations/{allocation}")
    assert settled.finish(program)[0] == 128 + signal.SIGTERM


@pytest.mark.long
def test_the_lifetime_ends_the_program(settled: Pool) -> None:
    line = [BUSBAR, "run", "-p", "5", "--lifetime", "5s", "--", "sleep", "600"]
    env = os.environ | {"BUSBAR_CONTEXT": str(settled.context)}
    done = subprocess.run(
        line, env=env, capture_output=True, text=True, timeout=EVENT_SECONDS, check=False
    )
    assert done.returncode == 128 + signal.SIGTERM and "lifetime" in done.stderr, done


def run_busbar(pool: Pool, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"BUSBAR_CONTEXT": str(pool.context)}
    return subprocess.run(
        [BUSBAR, "run", "-p", "5", "--", *command],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )


def test_the_program_gets_only_the_variables_that_it_needs(settled: Pool, tmp_path: Path) -> None:
    done = run_busbar(settled, tmp_path, "env", "-0")
    names = {entry.partition("=")[0] for entry in done.stdout.split("\0") if entry}
    added = names - set(os.environ) - {"BUSBAR_CONTEXT", "_"}
    assert added <= OUR_VARIABLES
    done = run_busbar(settled, tmp_path, sys.executable, "-c", "import nodes")
    assert "No module named 'nodes'" in done.stderr


def test_modules_in_the_current_folder_are_not_imported(settled: Pool, tmp_path: Path) -> None:
    for name in ("typer", "json", "remoting"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder')\n")
    done = run_busbar(settled, tmp_path, DEMO, "add")
    assert done.returncode == 0 and "are correct" in done.stdout, done.stderr


def test_errors_are_one_line_without_a_traceback(tmp_path: Path) -> None:
    damaged = tmp_path / "context.json"
    damaged.write_text('{"url": "https://127.0.0.1:9", "token": "t", "ca_pem": "x"}')
    cases = [
        ("login", "https://127.0.0.1:9"),
        ("login", "127.0.0.1:8443"),
        ("login", "http://127.0.0.1:8443"),
        ("node", "list"),
    ]
    for arguments in cases:
        env = os.environ | {"BUSBAR_CONTEXT": str(damaged)}
        done = subprocess.run(
            [BUSBAR, *arguments],
            env=env,
            capture_output=True,
            text=True,
            timeout=EVENT_SECONDS,
            check=False,
        )
        assert done.returncode in (1, 2, 5)
        assert done.stderr.startswith("busbar: ") and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"BUSBAR_DATA": "/proc/nowhere"}, ("manage.py", "check")),
        ({"BUSBAR_HTTPS_PORT": "abc"}, ("manage.py", "check")),
        ({}, ("-m", "deploy.supervisor", "--data", "/proc/nowhere")),
        ({}, ("-m", "nodes", "--folder", "/proc/nowhere", "enrol", "--token", "x")),
        ({}, ("-m", "nodes", "--folder", "/proc/nowhere", "enrol", "--token", "@/nowhere")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_commands_of_administrators_print_no_traceback(
    variables: dict[str, str], command: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.strip() and "Traceback" not in done.stderr


def test_c_program_of_the_guide_is_compiled_and_runs_as_printed(
    settled: Pool, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "guides" / "run-programs.md").read_text()
    block = guide.partition("## A program in C")[2].split("```\n")[1]
    for folder in (".venv/", "build/", "deploy/"):
        block = block.replace(f" {folder}", f" {ROOT}/{folder}")
    done = subprocess.run(
        ["/bin/bash", "-ec", f'busbar() {{ {BUSBAR} "$@"; }}\n{block}'],
        env=os.environ | {"BUSBAR_CONTEXT": str(settled.context)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0 and "are correct" in done.stdout, done.stderr
