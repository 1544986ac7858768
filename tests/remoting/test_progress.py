"""Programs that hang if the executor of their session server waits for anything (ADR 56)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.fleet.proxy import FaultyProxy
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode

CASES = (
    "memory_is_freed",
    "queue_is_full",
    "output_is_flushed",
    "parked_graph_is_changed",
    "running_graph_is_destroyed",
    "upload_waits",
    "rows_are_copied",
)
BULK_CASE = "bulk_connection_opens_later"
SECONDS = 120


def assert_case_ends(
    program: Path, name: str, env: dict[str, str], seconds: float = SECONDS
) -> None:
    """Run a case of the program and assert that it passes."""
    done = subprocess.run(
        [program, name], env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.stdout == f"{name}: passed\n", done.stdout + done.stderr[-2000:]


@contextmanager
def ready_program(program: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a program that opens its bulk connection after the next line of input."""
    process = subprocess.Popen(
        [program, BULK_CASE],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr and process.stderr.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def test_bulk_connection_opens_while_the_launcher_restarts(
    compiled: Callable[[str], Path],
) -> None:
    node = LocalNode()
    env = node.remote_environment(BUSBAR_TRANSPORT="tls")
    try:
        with ready_program(compiled("progress"), env) as process:
            node.launcher.kill()
            node.launcher.wait()
            go_on(process)
            node.restart()
            assert process.communicate(timeout=SECONDS)[0] == f"{BULK_CASE}: passed\n"
    finally:
        node.stop()


@pytest.mark.long
def test_bulk_connection_opens_after_10_seconds_without_network(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    proxy = FaultyProxy(node.port)
    env = node.remote_environment(BUSBAR_TRANSPORT="tls")
    ticket = Path(env["BUSBAR_TICKET_FILE"])
    ticket.write_text(
        ticket.read_text().replace(f"127.0.0.1 {node.port}", f"127.0.0.1 {proxy.port}")
    )
    with closing(proxy), ready_program(compiled("progress"), env) as process:
        proxy.lose_network()
        go_on(process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(10)
        proxy.restore_network()
        assert process.communicate(timeout=SECONDS)[0] == f"{BULK_CASE}: passed\n"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_program_ends(
    node: LocalNode, compiled: Callable[[str], Path], name: str, mode: str
) -> None:
    assert_case_ends(compiled("progress"), name, node.remote_environment(**MODES[mode]))
