"""A worker of pytest-xdist that dies fails one test; the others run, and the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.supervisor import ROOT

CONFTEST = "from tests.conftest import pytest_xdist_make_scheduler\n"
HEAD = "import os\n"
KILLS = "os.kill(os.getpid(), 9)"
END_SECONDS = 120


def content_of(tests: str) -> str:
    """Return a file of tests: `k` kills its worker, `p` passes."""
    bodies = {"k": KILLS, "p": "pass"}
    return HEAD + "".join(f"def test_{n}(): {bodies[kind]}\n" for n, kind in enumerate(tests))


def run(folder: Path, workers: int, files: Mapping[str, str], hooks: str = "") -> tuple[int, str]:
    """Run files of tests with the scheduler of this checkout. Return status and last line."""
    (folder / "conftest.py").write_text(CONFTEST + hooks)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, tests in files.items():
        (folder / f"test_{name}.py").write_text(content_of(tests))
    options = ["-p", "no:django", "-q", "-n", str(workers)]
    options += ["--dist", "loadfile", "--no-loadscope-reorder"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        check=False,
    )
    print(done.stdout, file=sys.stderr)
    return done.returncode, done.stdout.splitlines()[-1].partition(" in ")[0]


long = pytest.mark.long
"""Each run starts processes for seconds: the gate has one of each kind."""


@pytest.mark.parametrize("workers", [pytest.param(1, marks=long), 2, pytest.param(3, marks=long)])
def test_rest_of_the_tests_runs_after_one_killed_its_worker(tmp_path: Path, workers: int) -> None:
    files = {"a": "pppp", "b": "pkp", "c": "pppp", "d": "pppp", "e": "pppp"}
    assert run(tmp_path, workers, files) == (1, "1 failed, 18 passed")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param({"a": "k"}, "1 failed", marks=long),
        pytest.param({"a": "p", "b": "k", "c": "p", "d": "p"}, "1 failed, 3 passed", marks=long),
        ({"a": "pp", "b": "pp", "c": "ppk"}, "1 failed, 6 passed"),
        pytest.param({"a": "pkk", "b": "p", "c": "kp", "d": "p"}, "3 failed, 4 passed", marks=long),
    ],
    ids=["only test", "alone in its file", "last test", "several"],
)
def test_place_of_the_test_that_kills_does_not_matter(
    tmp_path: Path, files: dict[str, str], found: str
) -> None:
    assert run(tmp_path, 2, files) == (1, found)


DEATH_DURING_A_RESULT = """
import os
from threading import Event

dead, sent = Event(), Event()

def pytest_runtest_logreport(report):
    if not hasattr(report, "node") or (report.nodeid, report.when) != LAST:
        return
    node = report.node
    notify, send = node.notify_inproc, node.sendcommand

    def notify_late(name, **values):
        if name == "errordown":
            dead.set()
            assert sent.wait(60)
        notify(name, **values)

    def tell_that_it_was_sent(*command, **values):
        try:
            send(*command, **values)
        finally:
            sent.set()

    node.notify_inproc, node.sendcommand = notify_late, tell_that_it_was_sent
    assert dead.wait(60)
    os.waitid(os.P_PID, node.gateway._io.popen.pid, os.WEXITED | os.WNOWAIT)

LAST = ("test_b.py::test_0", "teardown")
"""
"""A worker dies, and gets more tests for its last result before its end is known."""


def test_worker_that_dies_while_it_is_given_tests_does_not_stop_the_run(tmp_path: Path) -> None:
    files = {"a": "pppp", "b": "pkp", "c": "pppp", "d": "pppp"}
    assert run(tmp_path, 1, files, DEATH_DURING_A_RESULT) == (1, "1 failed, 14 passed")


def test_worker_that_finds_other_tests_does_not_keep_the_run(tmp_path: Path) -> None:
    """The files changed while the tests ran, and the new worker found the new ones."""
    changes = 'open("test_b.py", "a").write("def test_new(): pass\\n")'
    (tmp_path / "test_a.py").write_text(
        f"{HEAD}def test_a():\n    {changes}\n    {KILLS}\ndef test_rest(): pass\n"
    )
    status, _ = run(tmp_path, 1, {"b": "pp", "c": "pp"})
    assert status not in (0, 1)
