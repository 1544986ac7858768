"""The ticket file of `busbar run`: found in namespaces of the program, and read as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from remoting.cli.ticket_file import TicketFile
from tests.remoting.node import EVENT_SECONDS, LocalNode, b64

INITIALISE = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
IN_A_CHILD = (
    "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], close_fds=True)"
)
AFTER_A_LINE = "input(); " + INITIALISE
REUSED = "import os, sys; os.dup2(os.open(sys.argv[2], os.O_RDONLY), int(sys.argv[1])); "
OWN_NAMESPACE = ["unshare", "--fork", "--pid", "--mount-proc"]
NO_DEVICE = "100"


class Run:
    """Starts programs as `busbar run` does."""

    def __init__(self, node: LocalNode) -> None:
        self.file = TicketFile()
        self.env = node.remote_environment(BUSBAR_TICKET_FILE=self.file.path)
        key = f"key {b64(node.client_key.private_bytes_raw())}"
        self.text = "".join(line + "\n" for line in (key, *node.ticket_lines()))
        self.file.replace(self.text)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[self.file.descriptor],
        )

    def output(self, *command: str) -> str:
        with self.start(*command) as program:
            return program.communicate(timeout=EVENT_SECONDS)[0].strip()


@pytest.fixture
def started(node: LocalNode) -> Iterator[Run]:
    run = Run(node)
    yield run
    run.file.close()


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


@pytest.mark.parametrize("namespace", [[], OWN_NAMESPACE], ids=["same", "own"])
@pytest.mark.parametrize(
    "command",
    [python(INITIALISE), python(IN_A_CHILD, INITIALISE)],
    ids=["program", "child without descriptors"],
)
def test_program_in_a_pid_namespace_has_the_gpu(
    started: Run, namespace: list[str], command: list[str]
) -> None:
    assert started.output(*namespace, *command) == "0"


def test_program_that_uses_the_number_for_another_file_reads_the_path(started: Run) -> None:
    code = REUSED + INITIALISE
    assert started.output(*python(code, str(started.file.descriptor), os.devnull)) == "0"


def test_program_that_inherited_the_ticket_of_another_run_reads_the_path(started: Run) -> None:
    other = TicketFile()
    other.replace("node none\n")
    code = REUSED + INITIALISE
    try:
        assert started.output(*python(code, str(started.file.descriptor), other.path)) == "0"
    finally:
        other.close()


@pytest.mark.parametrize("namespace", [[], OWN_NAMESPACE], ids=["same", "own"])
def test_program_reads_the_ticket_that_replaced_the_first_one(
    started: Run, namespace: list[str]
) -> None:
    started.file.replace("node none\n")
    with started.start(*namespace, *python(AFTER_A_LINE)) as program:
        started.file.replace("node none\n" * 1000)
        started.file.replace(started.text)
        assert program.communicate("\n", timeout=EVENT_SECONDS)[0].strip() == "0"


def test_part_of_a_ticket_file_is_not_used(started: Run) -> None:
    whole = os.pread(started.file.descriptor, 1 << 20, 0)
    path = f"/proc/self/fd/{started.file.descriptor}"
    assert os.stat(path).st_size == len(whole)
    started.file.write(whole[:-1])
    assert started.output(*python(INITIALISE)) == NO_DEVICE
    started.file.write(whole)
    assert started.output(*python(INITIALISE)) == "0"


def test_program_cannot_write_the_ticket_file(started: Run) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(started.file.descriptor, b"key", 0)


def test_file_knows_whether_a_program_has_read_it(started: Run) -> None:
    started.output(*python("pass"))
    assert not started.file.was_read()
    started.output(*python(INITIALISE))
    assert started.file.was_read()
